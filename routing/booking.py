"""A request's place on a worker, from selection to release, and its outcome."""

from enum import Enum
from typing import Final

from cache_index import WorkerId
from cache_index.value import Value
from routing.candidate import Source
from routing.request import Request


class Ending(Enum):
    ANSWERED = "answered"
    REFUSED = "refused"
    """The worker answered that the request is wrong (4xx): this is no evidence about the worker's health."""
    FAILED = "failed"
    ABORTED = "aborted"
    """The caller went away."""


class Outcome(Value):
    """Outcome of a request, with the engine's token counts if it reported them."""

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
    """A request that a worker has been given. Times are monotonic seconds.

    It is not a dataclass: once compiled, Python's byte code would fill it in, at ten times the cost.
    """

    __slots__ = (
        "booked_at",
        "decodes_beside",
        "first_byte_at",
        "incarnation",
        "is_elsewhere",
        "is_remote",
        "new_blocks",
        "plain_tokens",
        "reported_tokens",
        "request",
        "service_s",
        "source",
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
        reported_tokens: float | None = None,
        source: Source = "predicted",
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
        self.incarnation = 0
        """Incarnation of the worker at the time of booking."""
        self.service_s: float | None = None
        """Measured seconds of prefill, known for streams only."""
        self.first_byte_at: float | None = None
        self.plain_tokens = plain_tokens
        """Predicted cached tokens of the prompt, before the correction."""
        self.reported_tokens = reported_tokens
        """Predicted cached tokens by the engine's reports. None: there were no reports."""
        self.source: Source = source
        self.is_elsewhere = is_elsewhere
        """Whether another gateway or fleet made it, and reports its end."""
        self.is_remote = is_remote
        """Whether a prefill worker computes its prompt: it is load here, but does not wait for a prefill."""
        self.decodes_beside = 0
        """Requests that were generating when this one began to generate."""

    def is_uncomputed(self, *, failed: bool) -> bool:
        """Return whether its prefill was not done. If the worker *failed*, a predicted first byte is no proof."""
        return (self.service_s if failed else self.first_byte_at) is None
