"""The worker with the fewest tokens left to compute before the first token of what it was sent."""

import random

from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest


class LeastPrefillTokens:
    """Ignores the request's own hits, and counts those of others: their tokens are not outstanding."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def choose(self, choice: Choice) -> int:
        return lowest([account.queued_tokens(choice.now) for account in choice.accounts], self._rng)
