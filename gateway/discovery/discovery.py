"""The seam behind which the workers of a model are found."""

from collections.abc import AsyncGenerator
from typing import Protocol

from gateway.settings import WorkerSettings


class Discovery(Protocol):
    """Finds the workers of one model."""

    def watch(self) -> AsyncGenerator[tuple[WorkerSettings, ...], None]:
        """The whole set of workers: as it is, at once; and again when it may have changed.

        Never a part of it, never a difference: whoever missed one set knows all from the next. It ends where nothing
        can change any more, and the last set stays. What cannot be understood is not a set: the implementation tells
        of it, and goes on. Closing it leaves nothing behind.
        """
        ...
