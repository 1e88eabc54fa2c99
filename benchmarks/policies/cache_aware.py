"""SGLang's `cache_aware`: the longest match while it is long and load is even, else the fewest requests.

By its description; model_gateway/src/policies/cache_aware.rs. SMG has the same rule on real events.
"""

import math
import random

from benchmarks.policies.at_once import Rule
from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest


class CacheAware:
    """The longest match, where it is more than *threshold* of the prompt; of several, the fewest requests.

    Load is uneven, and no match counts, if the most requests of a worker are more than *apart* above the fewest and
    more than *times* as many. Then, and without such a match, the request is placed by *otherwise*.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        block_tokens: int,
        otherwise: Rule,
        threshold: float = 0.3,
        apart: int = 64,
        times: float = 1.5,
    ) -> None:
        self._rng = rng
        self._block_tokens = block_tokens
        self._otherwise = otherwise
        self._threshold = threshold
        self._apart = apart
        self._times = times

    def choose(self, choice: Choice) -> int:
        requests = [account.requests for account in choice.accounts]
        most, fewest = max(requests), min(requests)
        is_uneven = most - fewest > self._apart and most > self._times * fewest
        longest = max(choice.hits)
        if is_uneven or longest * self._block_tokens <= self._threshold * choice.ask.prompt_tokens:
            return self._otherwise.choose(choice)
        matched = [load if hit == longest else math.inf for hit, load in zip(choice.hits, requests, strict=True)]
        return lowest(matched, self._rng)
