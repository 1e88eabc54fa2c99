"""A request's place on a worker, from selection to release, and how it ended."""

from dataclasses import dataclass
from enum import Enum

from cache_index import WorkerId
from routing.request import Request


class Ending(Enum):
    ANSWERED = "answered"
    REFUSED = "refused"
    """The worker said that the caller is wrong (4xx): it counts neither for nor against the worker's health."""
    FAILED = "failed"
    ABORTED = "aborted"
    """The caller went away."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended; token counts are the engine's, where it told them."""

    ending: Ending
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(slots=True, eq=False)
class Booking:
    """What a worker has been given to do. Times are monotonic seconds."""

    worker: WorkerId
    request: Request
    hit_blocks: int
    uncached_tokens: float
    work_s: float
    """Predicted seconds of prefill."""
    booked_at: float
    service_s: float | None = None
    """Measured seconds of prefill: from its turn to its first byte; known for streams only."""
    first_byte_at: float | None = None
    decodes_beside: int = 0
    """Requests that were generating when this one began to."""
