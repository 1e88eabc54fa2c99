"""A request's place on a worker, from selection to release, and how it ended."""

from enum import Enum
from typing import Final

from cache_index import WorkerId
from cache_index.value import Value
from routing.candidate import Source
from routing.request import Request


class Ending(Enum):
    ANSWERED = "answered"
    REFUSED = "refused"
    """The worker said that the caller is wrong (4xx): it counts neither for nor against the worker's health."""
    FAILED = "failed"
    ABORTED = "aborted"
    """The caller went away."""


class Outcome(Value):
    """How a request ended; token counts are the engine's, where it told them."""

    __match_args__ = ("ending", "prompt_tokens", "cached_tokens", "completion_tokens")
    __slots__ = __match_args__

    def __init__(
        self,
        ending: Ending,
        prompt_tokens: int | None = None,
        cached_tokens: int | None = None,
        completion_tokens: int | None = None,
    ) -> None:
        self.ending: Final = ending
        self.prompt_tokens: Final = prompt_tokens
        self.cached_tokens: Final = cached_tokens
        self.completion_tokens: Final = completion_tokens


class Booking:
    """What a worker has been given to do. Times are monotonic seconds.

    No dataclass: compiled, one of those would be filled in by Python's byte code, at ten times the cost.
    """

    __slots__ = (
        "booked_at",
        "decodes_beside",
        "first_byte_at",
        "is_elsewhere",
        "is_remote",
        "life",
        "new_blocks",
        "plain_tokens",
        "request",
        "service_s",
        "source",
        "told_tokens",
        "uncached_tokens",
        "wait_s",
        "work_s",
        "worker",
    )

    def __init__(  # noqa: PLR0917  # in the order in which they are known
        self,
        worker: WorkerId,
        request: Request,
        new_blocks: int,
        uncached_tokens: float,
        work_s: float,
        booked_at: float,
        *,
        plain_tokens: float = 0.0,
        told_tokens: float | None = None,
        source: Source = "shadow",
        is_elsewhere: bool = False,
        is_remote: bool = False,
    ) -> None:
        self.worker = worker
        self.request = request
        self.new_blocks = new_blocks
        """Blocks of the prompt that the worker did not hold before."""
        self.uncached_tokens = uncached_tokens
        self.work_s = work_s
        """Predicted seconds of prefill."""
        self.booked_at = booked_at
        self.wait_s = 0.0
        """Predicted seconds from its booking until its prefill begins."""
        self.life = 0
        """Of the worker when it was booked."""
        self.service_s: float | None = None
        """Measured seconds of prefill: from its turn to its first byte; known for streams only."""
        self.first_byte_at: float | None = None
        self.plain_tokens = plain_tokens
        """Tokens of the prompt that were predicted to be cached, before the prediction was corrected."""
        self.told_tokens = told_tokens
        """The same by what the engine had told; None where it had told nothing."""
        self.source: Source = source
        self.is_elsewhere = is_elsewhere
        """Another gateway has made it, and knows how it ends."""
        self.is_remote = is_remote
        """A prefill worker computes its prompt: it is load here, but nothing that waits for a prefill."""
        self.decodes_beside = 0
        """Requests that were generating when this one began to."""

    def is_uncomputed(self, *, failed: bool) -> bool:
        """Whether its prefill should be taken as not done. Of a worker that *failed*, a prediction is no proof."""
        return (self.service_s if failed else self.first_byte_at) is None
