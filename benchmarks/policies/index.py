"""The index in which a policy looks up which worker has computed how much of a prompt."""

from collections.abc import Sequence
from typing import Protocol

from replay.policy import Ask


class Index(Protocol):
    """One way to know, or to guess, what the workers hold. What it has no use for it ignores."""

    def hits(self, ask: Ask) -> list[int]:
        """Return the leading blocks of *ask* that each worker should hold when it comes to compute it."""
        ...

    def sent(self, worker: int, ask: Ask) -> None: ...

    def first_token(self, worker: int, ask: Ask) -> None: ...

    def finished(self, worker: int, ask: Ask) -> None: ...

    def stored(self, worker: int, blocks: Sequence[int]) -> None: ...

    def removed(self, worker: int, blocks: Sequence[int]) -> None: ...
