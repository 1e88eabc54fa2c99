"""The worker with the fewest requests under way."""

import random

from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest


class LeastRequests:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def choose(self, choice: Choice) -> int:
        return lowest([account.requests for account in choice.accounts], self._rng)
