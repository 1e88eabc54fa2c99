"""Each worker in turn."""

from benchmarks.policies.desk import Choice


class RoundRobin:
    def __init__(self) -> None:
        self._turn = -1

    def choose(self, choice: Choice) -> int:
        self._turn = (self._turn + 1) % len(choice.accounts)
        return self._turn
