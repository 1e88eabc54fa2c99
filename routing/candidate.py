"""A worker with its load and its hit, for one request: all that a strategy may look at."""

from typing import Final, Literal

import msgspec

from cache_index import WorkerId
from cache_index.value import Value


class Load(Value):
    """The load of a worker at one moment, from our own accounting. One is made per worker and request."""

    __match_args__ = (
        "backlog_s",
        "pending",
        "decodes",
        "busy_share",
        "prefill_overhead_s",
        "prefill_s_per_token",
        "decode_s_per_token",
    )
    __slots__ = __match_args__

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        backlog_s: float,
        pending: int,
        decodes: int,
        busy_share: float,
        prefill_overhead_s: float,
        prefill_s_per_token: float,
        decode_s_per_token: float,
    ) -> None:
        self.backlog_s: Final = backlog_s
        """Seconds of prefill before a request that is sent at this moment."""
        self.pending: Final = pending
        """Requests without a first token."""
        self.decodes: Final = decodes
        """Requests that are generating."""
        self.busy_share: Final = busy_share
        """Smoothed share of time with prefill to do, 0 to 1."""
        self.prefill_overhead_s: Final = prefill_overhead_s
        self.prefill_s_per_token: Final = prefill_s_per_token
        self.decode_s_per_token: Final = decode_s_per_token
        """Time that one more running request adds to each output token."""

    @property
    def in_flight(self) -> int:
        return self.pending + self.decodes


Source = Literal["reported", "predicted"]
"""Source of a hit: the engine's reports of its cache, or a prediction from what was sent to the worker."""


class Candidate(Value):
    """A worker that could answer."""

    __match_args__ = (
        "worker",
        "hit_blocks",
        "hit_tokens",
        "load",
        "admits",
        "load_s",
        "source",
        "plain_tokens",
        "reported_tokens",
        "zone_penalty_s",
        "fetches",
        "remote_tokens",
        "evicts_s",
    )
    __slots__ = __match_args__

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        worker: WorkerId,
        hit_blocks: int,
        hit_tokens: float,
        load: Load,
        admits: bool = True,
        load_s: float = 0.0,
        source: Source = "predicted",
        plain_tokens: float = 0.0,
        reported_tokens: float | None = None,
        zone_penalty_s: float = 0.0,
        fetches: bool = False,
        remote_tokens: float = 0.0,
        evicts_s: float = 0.0,
    ) -> None:
        self.worker: Final = worker
        self.hit_blocks: Final = hit_blocks
        self.hit_tokens: Final = hit_tokens
        self.load: Final = load
        self.admits: Final = admits
        """False while the worker warms up and has enough requests: it comes after the others."""
        self.load_s: Final = load_s
        """Seconds to load the blocks of the hit that are not on the GPU."""
        self.source: Final = source
        self.plain_tokens: Final = plain_tokens
        """`hit_tokens` before the correction by the accuracy of such predictions."""
        self.reported_tokens: Final = reported_tokens
        """Hit by the engine's reports, trusted or not. None: there are no reports."""
        self.zone_penalty_s: Final = zone_penalty_s
        """Extra cost in seconds, compared with a near worker."""
        self.fetches: Final = fetches
        """Whether it can decode what a prefill worker has computed."""
        self.remote_tokens: Final = remote_tokens
        """Tokens of the prompt that a prefill worker computes and it fetches; 0: it computes missing tokens itself."""
        self.evicts_s: Final = evicts_s
        """Expected seconds to compute blocks again that have to leave its cache for the request."""


Role = Literal["both", "prefill", "decode"]
"""A worker's part of a request: both; prompts only, for others; or answers only, to prompts that others computed."""

WhyNotReady = Literal["down", "asleep", "draining"]
WhyNot = WhyNotReady | Literal["breaker open", "not the worker that keeps the response", "a prefill worker"]


class Excluded(msgspec.Struct, frozen=True):
    """A worker that is not a candidate for a request, as the candidate that it would be."""

    candidate: Candidate
    why_not: WhyNot
