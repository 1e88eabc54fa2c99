"""The index of policies that have none."""

from collections.abc import Sequence

from replay.policy import Ask


class Nothing:
    """No worker is known to hold anything."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def hits(self, ask: Ask) -> list[int]:  # noqa: ARG002
        return [0] * self._workers

    def sent(self, worker: int, ask: Ask) -> None:
        pass

    def first_token(self, worker: int, ask: Ask) -> None:
        pass

    def finished(self, worker: int, ask: Ask) -> None:
        pass

    def stored(self, worker: int, blocks: Sequence[int]) -> None:
        pass

    def removed(self, worker: int, blocks: Sequence[int]) -> None:
        pass
