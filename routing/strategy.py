"""Interface of routing strategies."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Protocol

import msgspec

from cache_index import WorkerId
from routing.candidate import Candidate
from routing.request import Request

LoadOnly = Literal["load_alone", "random", "only_candidate", "none"]
"""Reason why the candidates' order was not determined by a strategy.

"load_alone": all cache hits are equally long, so costs differ only by load. "random": the strategy sees no difference
between the candidates. "only_candidate" and "none": there are fewer than two candidates.
"""


class Ranking(msgspec.Struct, frozen=True):
    """Order that `Strategy.rank` would return, and the strategy or reason that determines it."""

    order: list[Candidate]
    effective: str
    """Name of the strategy that determined the order, or a value of `LoadOnly` if no strategy did."""
    costs_s: Mapping[WorkerId, float] = {}
    """Cost of the request on each worker in seconds. The mapping is empty if the strategy does not rank by cost."""


class Strategy(Protocol):
    """Strategy that ranks candidate workers. Outcomes are reported only to the fleet and the index."""

    is_late_bound: ClassVar[bool]
    """Whether requests are held until a worker is about to be free, even if the workers are not shared by teams."""
    ranks_by_cost: ClassVar[bool]
    """Whether the strategy ranks by cost in seconds. If so, a held request waits for the worker with the lowest cost.
    """
    accepts_any_worker: ClassVar[bool]
    """Whether any free worker is as good as the strategy's first choice."""
    needs_events: ClassVar[bool]
    """Whether the strategy uses cache events that engines report."""

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return all of *candidates*, best first. Failover uses the next candidate without ranking again."""
        ...

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        """Return the order that `rank` would return now, including its tie-breaking, without changing any state.

        This method may be slower than `rank`, because no request waits for it.
        """
        ...
