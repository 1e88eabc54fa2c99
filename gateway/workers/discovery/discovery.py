"""Interface of worker discovery."""

from collections.abc import AsyncGenerator
from typing import Protocol

from gateway.workers.worker_spec import WorkerSpec


class Discovery(Protocol):
    """Discovery of the workers of one model, which follows changes."""

    def watch(self) -> AsyncGenerator[tuple[WorkerSpec, ...], None]:
        """Yield the complete set of workers at once, and again whenever it might have changed.

        Every set is complete, so a reader that missed one is up to date after the next. The iterator ends when the set
        can no longer change; the last set stays in use. Malformed input is reported, and the iterator continues with
        the last valid set. Closing the iterator releases all of its resources.
        """
        ...
