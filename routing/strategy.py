"""Interface of routing strategies."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Protocol

import msgspec

from cache_index import WorkerId
from routing.candidate import Candidate
from routing.request import Request

LoadOnly = Literal["load_alone", "random", "only_candidate", "none"]
"""Reason for an order that was not determined by a strategy.

"load_alone": all cache hits are equally long, so costs differ only by load. "random": the strategy sees no difference
between the candidates. "only_candidate" and "none": there are fewer than two candidates.
"""


class Ranking(msgspec.Struct, frozen=True):
    """Order that `Strategy.rank` would return, and what determines it."""

    order: list[Candidate]
    effective: str
    """Name of the strategy that determined the order, or a value of `LoadOnly` if none did."""
    costs_s: Mapping[WorkerId, float] = {}
    """Cost of the request on each worker in seconds. It is empty if the strategy does not rank by cost."""


class Strategy(Protocol):
    """Ranks candidates. Outcomes are reported to the fleet and the index, never to a strategy."""

    is_late_bound: ClassVar[bool]
    """Whether requests are held until a worker is about to be free, even if no teams share the fleet."""
    ranks_by_cost: ClassVar[bool]
    """Whether the strategy ranks by cost in seconds. A held request then waits for the worker on which it costs least.
    """
    accepts_any_worker: ClassVar[bool]
    """Whether any free worker is as good as the strategy's first choice."""
    needs_events: ClassVar[bool]
    """Whether the strategy uses the engines' cache events."""

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return all of *candidates*, best first. Failover takes the next candidate without another call."""
        ...

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        """Return the order that `rank` would return now, including its tie-breaking, without changing any state.

        This method may be slower than `rank`, because no request waits for it.
        """
        ...
