"""The worker that a request would go to at this moment, and why. Making an explanation changes nothing."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from cache_index import WorkerId
from routing.candidate import Candidate, Excluded
from routing.request import Request
from routing.strategy import Ranking

Reason = Literal["hit", "spread", "cold", "none"]
"""hit: no candidate holds more; spread: one holds more, but costs more; cold: no candidate holds any block; none: there
are no candidates."""
SPARE_SHARE = 0.2
"""Share of the caller's time limit that is left when a request becomes urgent."""


class Place(msgspec.Struct, frozen=True):
    """A candidate's place in the order."""

    rank: int
    """Number from 1, which is tried first."""
    candidate: Candidate
    predicted_ttft_s: float
    cost_s: float | None
    """Cost that the strategy ranked by. None: it does not rank by cost."""


class Explanation(msgspec.Struct, frozen=True):
    """The decision of a `Dispatcher` about a request."""

    request: Request
    strategy: str
    """Name of the strategy that ranks: the model's, or the one that the request asks for."""
    effective: str
    reason: Reason
    places: list[Place]
    """Candidates in the order in which to try them."""
    excluded: list[Excluded]


def reason_of(order: list[Candidate]) -> Reason:
    """Return the reason why the first of *order* is first."""
    if not order:
        return "none"
    longest = max([candidate.hit_blocks for candidate in order])
    if longest == 0:
        return "cold"
    return "hit" if order[0].hit_blocks == longest else "spread"


def effective_of(ranking: Ranking) -> str:
    """Return what decides the order: no strategy does if there is nothing to choose from."""
    if len(ranking.order) > 1:
        return ranking.effective
    return "only_candidate" if ranking.order else "none"


def places_of(request: Request, order: list[Candidate], costs_s: Mapping[WorkerId, float]) -> list[Place]:
    return [
        Place(rank, candidate, predicted_ttft_s(request, candidate), costs_s.get(candidate.worker))
        for rank, candidate in enumerate(order, start=1)
    ]


def predicted_ttft_s(request: Request, candidate: Candidate) -> float:
    """Return the seconds to the first token of *request* on *candidate*: backlog and prefill, both on the slow side."""
    return candidate.load.backlog_s + prefill_s(request, candidate)


def prefill_s(request: Request, candidate: Candidate) -> float:
    """Return the seconds that the prefill of *request* takes on *candidate* once it begins."""
    load = candidate.load
    uncached_tokens = max(1.0, request.prompt_tokens - candidate.hit_tokens)
    return load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token


def longest_wait_s(within_s: float, prefill_s: float) -> float:
    """Return how long a request may wait that needs its first token *within_s*, with a prefill of *prefill_s*.

    A prefill time is only a prediction. So some time to wait always remains, and no request is turned away from an idle
    worker, which alone can show that the prediction is wrong.
    """
    return max(within_s - prefill_s, within_s * SPARE_SHARE)
