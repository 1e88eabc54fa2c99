"""A worker with its load and its hit, for one request: all that a strategy may look at."""

from typing import Literal

import msgspec

from cache_index import WorkerId


class Load(msgspec.Struct, frozen=True, gc=False):
    """One reading of a worker, from our own accounting. One is made per worker and request, hence no dataclass."""

    backlog_s: float
    """Seconds of prefill that stand before a request sent at this moment."""
    pending: int
    """Requests whose first token has not come."""
    decodes: int
    """Requests that are generating."""
    busy_share: float
    """Smoothed share of time, 0 to 1, in which the worker had prefill to do."""
    prefill_overhead_s: float
    prefill_s_per_token: float
    decode_s_per_token: float
    """Time that one more running request adds to each output token."""

    @property
    def in_flight(self) -> int:
        return self.pending + self.decodes


Source = Literal["confirmed", "shadow"]
"""Where a hit is known from: what the engine tells of its cache, or what was sent there and should still be there."""


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A worker that could answer."""

    worker: WorkerId
    hit_blocks: int
    hit_tokens: float
    load: Load
    admits: bool = True
    """False while the worker is being warmed up and has as much as it should have: it comes after the others."""
    load_s: float = 0.0
    """Seconds to bring those blocks of the hit to the GPU that are elsewhere."""
    source: Source = "shadow"
    plain_tokens: float = 0.0
    """`hit_tokens` before it was corrected by how far such predictions come true."""
    told_tokens: float | None = None
    """The same by what the engine told, trusted or not; None where nothing was told."""
    way_s: float = 0.0
    """What it costs more than one that is near: it stands in another zone."""
    fetches: bool = False
    """It decodes what a prefill worker has computed, if it is given that."""
    remote_tokens: float = 0.0
    """Of the prompt, that a prefill worker computes for it and that it fetches; 0: it computes what it lacks."""
    evicts_s: float = 0.0
    """Expected seconds to compute again what has to leave its cache for the request."""


Role = Literal["both", "prefill", "decode"]
"""What a worker does: whole requests; prompts only, for others; or answers, to prompts that others computed."""

WhyNotReady = Literal["down", "asleep", "draining"]
WhyNot = WhyNotReady | Literal["breaker open", "not the worker that keeps the response", "a prefill worker"]


class Excluded(msgspec.Struct, frozen=True):
    """A worker that is no candidate for a request, as the one that it would be."""

    candidate: Candidate
    why_not: WhyNot
