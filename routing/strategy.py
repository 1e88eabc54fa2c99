"""The seam behind which a routing policy lives."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from cache_index import WorkerId
from routing.candidate import Candidate
from routing.request import Request

Effective = Literal[
    "round_robin",
    "least_loaded",
    "session",
    "prefix_aware",
    "kv_aware",
    "load_alone",
    "random",
    "only_candidate",
    "none",
]
"""What a strategy comes to for one request.

Its own name, or that of another strategy whose order it is; load_alone: all hits are equally long, so cost differs by
load alone; random: the candidates are equal to it; only_candidate, none: there is nothing to choose from.
"""


class Ranking(msgspec.Struct, frozen=True):
    """What `Strategy.rank` would answer, and what made it so."""

    order: list[Candidate]
    effective: Effective
    costs_s: Mapping[WorkerId, float] = {}
    """What the request costs on each worker, in seconds; empty where the strategy does not think in costs."""


class Strategy(Protocol):
    """Ranks candidates. Feedback goes to the fleet and the index, never to a strategy."""

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        """All of *candidates*, best first: failover takes the next one without asking again."""
        ...

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        """The order that `rank` would give at this moment, ties included. It changes nothing, also not the next order.

        Not for the hot path: it may take longer than `rank`.
        """
        ...
