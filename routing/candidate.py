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


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A worker that could answer."""

    worker: WorkerId
    hit_blocks: int
    hit_tokens: float
    load: Load
    admits: bool = True
    """False while the worker is being warmed up and has as much as it should have: it comes after the others."""


WhyNotReady = Literal["down", "asleep", "draining"]
WhyNot = WhyNotReady | Literal["breaker open", "not the worker that keeps the response"]


class Excluded(msgspec.Struct, frozen=True):
    """A worker that is no candidate for a request, as the one that it would be."""

    candidate: Candidate
    why_not: WhyNot
