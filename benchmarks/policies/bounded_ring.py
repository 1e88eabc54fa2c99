"""Consistent hashing of the beginning of a prompt, with bounded loads (CHWBL).

Mirrokni, Thorup, Zadimoghaddam: Consistent Hashing with Bounded Loads, arXiv 1608.01350.
"""

import bisect
import math

from benchmarks.policies.at_once import Rule
from benchmarks.policies.desk import Choice
from benchmarks.policies.rendezvous import key_of, weight

POINTS = 160
"""Places of a worker on the ring: vllm-router's number of virtual nodes."""


class BoundedRing:
    """The first worker on the ring, from the hash of the first *k* blocks on, that has room for one request more.

    None may have more than *load_factor* times its share of all requests under way, this one included, rounded up: so
    there always is one that has room.
    """

    def __init__(self, workers: int, *, k: int, load_factor: float, otherwise: Rule) -> None:
        self._ring = sorted(
            (weight(f"{worker}#{point}"), worker) for worker in range(workers) for point in range(POINTS)
        )
        self._k = k
        self._load_factor = load_factor
        self._otherwise = otherwise

    def choose(self, choice: Choice) -> int:
        key = key_of(choice.ask, self._k)
        if key is None:
            return self._otherwise.choose(choice)
        requests = [account.requests for account in choice.accounts]
        most = math.ceil(self._load_factor * (sum(requests) + 1) / len(requests))
        start = bisect.bisect_left(self._ring, (weight(key), 0))
        around = (worker for _, worker in self._ring[start:] + self._ring[:start])
        return next(worker for worker in around if requests[worker] < most)
