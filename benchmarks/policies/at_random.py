"""Any worker."""

import random

from benchmarks.policies.desk import Choice


class AtRandom:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def choose(self, choice: Choice) -> int:
        return self._rng.randrange(len(choice.accounts))
