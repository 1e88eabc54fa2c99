"""A request's place on a worker, from selection to release, and how it ended."""

from dataclasses import dataclass
from enum import Enum

import msgspec

from cache_index import WorkerId
from routing.candidate import Source
from routing.request import Request


class Ending(Enum):
    ANSWERED = "answered"
    REFUSED = "refused"
    """The worker said that the caller is wrong (4xx): it counts neither for nor against the worker's health."""
    FAILED = "failed"
    ABORTED = "aborted"
    """The caller went away."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
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
    new_blocks: int
    """Blocks of the prompt that the worker did not hold before."""
    uncached_tokens: float
    work_s: float
    """Predicted seconds of prefill."""
    booked_at: float
    wait_s: float = 0.0
    """Predicted seconds from its booking until its prefill begins."""
    life: int = 0
    """Of the worker when it was booked."""
    service_s: float | None = None
    """Measured seconds of prefill: from its turn to its first byte; known for streams only."""
    first_byte_at: float | None = None
    plain_tokens: float = 0.0
    """Tokens of the prompt that were predicted to be cached, before the prediction was corrected."""
    told_tokens: float | None = None
    """The same by what the engine had told; None where it had told nothing."""
    source: Source = "shadow"
    decodes_beside: int = 0
    """Requests that were generating when this one began to."""

    def is_uncomputed(self, *, failed: bool) -> bool:
        """Whether its prefill should be taken as not done. Of a worker that *failed*, a prediction is no proof."""
        return (self.service_s if failed else self.first_byte_at) is None
