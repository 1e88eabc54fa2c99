"""Arrivals without a trace: `Workload`s of `benchmarks.replay`."""

import itertools
import random
from collections.abc import Iterable, Sequence

from replay.trace import Recorded
from replay.workload import Arrivals


class ConstantConcurrency:
    """Keeps *in_flight* requests running, in their order: a client with an answer sends the next one at once."""

    def __init__(self, requests: Sequence[Recorded], *, in_flight: int) -> None:
        self._first = requests[:in_flight]
        self._others = iter(requests[in_flight:])

    def begin(self) -> Iterable[tuple[float, Recorded]]:
        return [(0.0, request) for request in self._first]

    def answered(self, request: Recorded, now: float) -> Arrivals:  # noqa: ARG002
        following = next(self._others, None)
        return () if following is None else [(now, following)]


class SessionsAtRate:
    """Sessions begin as a Poisson process, *begin_per_s* in a second; inside, a turn follows the answer before it."""

    def __init__(self, requests: Sequence[Recorded], rng: random.Random, *, begin_per_s: float) -> None:
        sessions = [list(session) for _, session in itertools.groupby(requests, key=lambda request: request.session)]
        times = itertools.accumulate(rng.expovariate(begin_per_s) for _ in sessions)
        self._first = [(at, session[0]) for at, session in zip(times, sessions, strict=True)]
        self._following = {a.number: b for session in sessions for a, b in itertools.pairwise(session)}

    def begin(self) -> Iterable[tuple[float, Recorded]]:
        return self._first

    def answered(self, request: Recorded, now: float) -> Arrivals:
        following = self._following.get(request.number)
        return () if following is None else [(now + following.wait_s, following)]
