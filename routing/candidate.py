"""A worker with its load and its hit, for one request: all that a strategy may look at."""

from typing import Final, Literal

import msgspec

from cache_index import WorkerId
from cache_index.value import Value


class Load(Value):
    """One reading of a worker, from our own accounting. One is made per worker and request."""

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
        """Seconds of prefill that stand before a request sent at this moment."""
        self.pending: Final = pending
        """Requests whose first token has not come."""
        self.decodes: Final = decodes
        """Requests that are generating."""
        self.busy_share: Final = busy_share
        """Smoothed share of time, 0 to 1, in which the worker had prefill to do."""
        self.prefill_overhead_s: Final = prefill_overhead_s
        self.prefill_s_per_token: Final = prefill_s_per_token
        self.decode_s_per_token: Final = decode_s_per_token
        """Time that one more running request adds to each output token."""

    @property
    def in_flight(self) -> int:
        return self.pending + self.decodes


Source = Literal["confirmed", "shadow"]
"""Where a hit is known from: what the engine tells of its cache, or what was sent there and should still be there."""


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
        "told_tokens",
        "way_s",
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
        source: Source = "shadow",
        plain_tokens: float = 0.0,
        told_tokens: float | None = None,
        way_s: float = 0.0,
        fetches: bool = False,
        remote_tokens: float = 0.0,
        evicts_s: float = 0.0,
    ) -> None:
        self.worker: Final = worker
        self.hit_blocks: Final = hit_blocks
        self.hit_tokens: Final = hit_tokens
        self.load: Final = load
        self.admits: Final = admits
        """False while the worker is being warmed up and has as much as it should have: it comes after the others."""
        self.load_s: Final = load_s
        """Seconds to bring those blocks of the hit to the GPU that are elsewhere."""
        self.source: Final = source
        self.plain_tokens: Final = plain_tokens
        """`hit_tokens` before it was corrected by how far such predictions come true."""
        self.told_tokens: Final = told_tokens
        """The same by what the engine told, trusted or not; None where nothing was told."""
        self.way_s: Final = way_s
        """What it costs more than one that is near: it stands in another zone."""
        self.fetches: Final = fetches
        """It decodes what a prefill worker has computed, if it is given that."""
        self.remote_tokens: Final = remote_tokens
        """Of the prompt, that a prefill worker computes for it and that it fetches; 0: it computes what it lacks."""
        self.evicts_s: Final = evicts_s
        """Expected seconds to compute again what has to leave its cache for the request."""


Role = Literal["both", "prefill", "decode"]
"""What a worker does: whole requests; prompts only, for others; or answers, to prompts that others computed."""

WhyNotReady = Literal["down", "asleep", "draining"]
WhyNot = WhyNotReady | Literal["breaker open", "not the worker that keeps the response", "a prefill worker"]


class Excluded(msgspec.Struct, frozen=True):
    """A worker that is no candidate for a request, as the one that it would be."""

    candidate: Candidate
    why_not: WhyNot
