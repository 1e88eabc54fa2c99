"""Claims and results of the lines of batches, in the store of the gateway. Several gateways can share one batch.

A gateway claims lines and renews its lease on all of them. After the lease has ended, other gateways claim the lines
again. A line can therefore run twice if a gateway is killed, but only its first result counts.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from gateway.batch.ranges import NO_WORKER
from gateway.tenancy.ledger.entry import Entry


@dataclass(frozen=True, slots=True)
class LineResult:
    """Result of one line, whose output is a piece of a file in the folder."""

    part: str
    """Name of the file with the output of the line."""
    start: int
    """Position of the output in the file."""
    length: int
    ok: bool
    """Whether the line was answered with status 200, so that its output belongs to the output file."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """Number of lines of a batch, and of its finished lines."""

    total: int
    completed: int
    failed: int

    @property
    def is_done(self) -> bool:
        return self.completed + self.failed >= self.total


class BatchRef(NamedTuple):
    """Name of a batch in the store of lines."""

    team: str
    id: str


class LineStore(Protocol):
    """Store of claims and results. Lines are numbered from 0 in the order in which to run them.

    All methods raise StoreUnavailable if the store does not answer.
    """

    async def begin(self, batch: BatchRef, total: int) -> None:
        """Add a batch with *total* lines. An existing batch stays as it is."""
        ...

    async def claim(
        self, batch: BatchRef, owner: str, count: int, *, now: float, until: float, worker: str = NO_WORKER
    ) -> list[int]:
        """Return up to *count* lines that *owner* now has to run on *worker*. First come lines of owners whose leases
        ended, and then lines of the worker's range, see `LineRanges`.

        The lease of *owner* on all its lines then ends at *until*. Times are in seconds since 1970.
        """
        ...

    async def renew(self, batch: BatchRef, owner: str, *, until: float) -> None:
        """Extend the lease of *owner* on all its lines to *until*, if it has claimed lines before."""
        ...

    async def finish(self, batch: BatchRef, line: int, result: LineResult, entry: Entry | None = None) -> bool:
        """Store the result of a line, and return whether it is its first result. Later results are ignored.

        *entry* is written to the ledger in the same step if the result is the first one, and otherwise never. The
        ledger therefore has one entry for each line in the output, of the run that is in the output.
        """
        ...

    async def close(self, batch: BatchRef) -> None:
        """Ignore further results of a batch. Call this before its output is written, which then contains every line
        with a ledger entry.
        """
        ...

    async def progress(self, batch: BatchRef) -> Progress | None:
        """Return how many lines of a batch are finished, or None if the batch does not exist."""
        ...

    async def results(self, batch: BatchRef, start: int, stop: int) -> dict[int, LineResult]:
        """Return the results of the finished lines from *start* to *stop* - 1, by line."""
        ...

    async def forget(self, batch: BatchRef) -> None:
        """Remove a batch with its claims and results."""
        ...


def encoded(result: LineResult) -> bytes:
    """Return *result* in the form for the store."""
    return msgspec.json.encode(
        (
            *(result.part, result.start, result.length, result.ok),
            *(result.prompt_tokens, result.cached_tokens, result.completion_tokens, result.reasoning_tokens),
        )
    )


def decoded(data: bytes) -> LineResult:
    """Return the result from the output of `encoded`."""
    return LineResult(*msgspec.json.decode(data))
