"""The seam for routing strategies."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Protocol

import msgspec

from cache_index import WorkerId
from routing.candidate import Candidate
from routing.request import Request

LoadOnly = Literal["load_alone", "random", "only_candidate", "none"]
"""Reason for an order that no strategy decides.

load_alone: all hits are equally long, so costs differ by load alone; random: the candidates are equal to the strategy;
only_candidate, none: there is nothing to choose from.
"""


class Ranking(msgspec.Struct, frozen=True):
    """The order that `Strategy.rank` would return, and what decides it."""

    order: list[Candidate]
    effective: str
    """Name of the strategy whose order it is, the strategy itself or a simpler one; or one of `LoadOnly`."""
    costs_s: Mapping[WorkerId, float] = {}
    """Cost of the request on each worker, in seconds; empty where the strategy does not rank by cost."""


class Strategy(Protocol):
    """Ranks candidates. Feedback goes to the fleet and the index, never to a strategy."""

    is_late_bound: ClassVar[bool]
    """Whether its requests are held until a worker is about to be free, even if no teams share the fleet."""
    ranks_by_cost: ClassVar[bool]
    """Whether it ranks by cost in seconds. Its held requests wait for the worker on which they cost least."""
    accepts_any_worker: ClassVar[bool]
    """Whether every free worker is as good as its first choice."""
    needs_events: ClassVar[bool]
    """Whether it uses the engines' reports of their caches."""

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return all of *candidates*, best first: failover takes the next one without asking again."""
        ...

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        """Return the order that `rank` would return at this moment, ties included, and change nothing.

        It may take longer than `rank`: requests do not wait for it.
        """
        ...
