"""Bookings record that a request is assigned to a worker, from the worker's selection to the end of the request."""

from enum import Enum
from typing import Final

from cache_index import WorkerId
from cache_index.native import mypyc_attr
from cache_index.value import Value
from routing.candidate import Source
from routing.loads import NO_LOADS, Loads
from routing.pull import Pull
from routing.request import Request


class Ending(Enum):
    ANSWERED = "answered"
    REFUSED = "refused"
    """The worker rejected the request with a 4xx status, which says nothing about the worker's health."""
    FAILED = "failed"
    ABORTED = "aborted"
    """The caller closed the connection before the end of the answer."""


@mypyc_attr(acyclic=True)
class Outcome(Value):
    """Outcome of a request, with the engine's token counts if the engine reported them."""

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


@mypyc_attr(acyclic=True)
class Booking:
    """Request that is assigned to a worker. All times are monotonic seconds.

    The class is not a dataclass because the compiled package would run a dataclass's generated constructor as Python
    byte code, which takes ten times as long.
    """

    __slots__ = (
        "booked_at",
        "decodes_at_start",
        "decodes_beside",
        "first_byte_at",
        "incarnation",
        "is_elsewhere",
        "is_remote",
        "loads",
        "new_blocks",
        "plain_tokens",
        "pull",
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
        loads: Loads = NO_LOADS,
        pull: Pull | None = None,
    ) -> None:
        self.worker = worker
        self.request = request
        self.new_blocks = new_blocks
        """Number of prompt blocks that were not in the worker's cache before the booking."""
        self.uncached_tokens = uncached_tokens
        self.work_s = work_s
        """Predicted prefill time of the booked request in seconds."""
        self.booked_at = booked_at
        self.wait_s = 0.0
        """Predicted seconds between the booking and the start of the request's prefill."""
        self.incarnation = 0
        """Incarnation number of the worker at the time of booking. It changes with each restart of the worker."""
        self.service_s: float | None = None
        """Measured prefill time in seconds, or None if unknown. Only the prefills of streamed answers are measured."""
        self.first_byte_at: float | None = None
        self.plain_tokens = plain_tokens
        """Predicted cached tokens of the prompt, before the accuracy correction."""
        self.reported_tokens = reported_tokens
        """Cached prompt tokens according to the engine's cache events, or None if the engine reports no events."""
        self.source: Source = source
        self.is_elsewhere = is_elsewhere
        """Whether another gateway replica or another fleet made the booking and reports its end."""
        self.is_remote = is_remote
        """Whether a prefill worker computes the prompt, so that the booking adds load but waits for no prefill."""
        self.loads = loads
        """Cached tokens of the prompt that the worker must load to its GPU, by tier."""
        self.pull = pull
        """Pull of prompt blocks from another worker, which `loads` includes, or None."""
        self.decodes_at_start = 0
        """Number of requests that were generating on the worker when the prefill of this request began."""
        self.decodes_beside = 0
        """Number of other requests that were generating on the worker when this request began to generate."""

    def is_uncomputed(self, *, failed: bool) -> bool:
        """Return whether the prompt was never computed. A failed request with only a predicted first byte counts as not
        computed.
        """
        return (self.service_s if failed else self.first_byte_at) is None
