"""The seam behind which the workers of a model are found."""

from collections.abc import AsyncGenerator
from typing import Protocol

from gateway.workers.worker_spec import WorkerSpec


class Discovery(Protocol):
    """Finds the workers of one model."""

    def watch(self) -> AsyncGenerator[tuple[WorkerSpec, ...], None]:
        """Yield the whole set of workers at once, and again when it may have changed.

        A set is never a part or a difference: a reader that missed one knows everything from the next. The iterator
        ends if nothing can change any more, and the last set stays. Input that cannot be understood is not a set: the
        implementation reports it and goes on. Closing the iterator leaves nothing behind.
        """
        ...
