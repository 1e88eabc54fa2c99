"""Where a request would go at this moment and why, told worker by worker. Making one changes nothing."""

from collections.abc import Mapping

import msgspec

from cache_index import WorkerId
from routing.candidate import Candidate, Excluded
from routing.reason import Reason
from routing.request import Request
from routing.strategy import Effective, Ranking


class Place(msgspec.Struct, frozen=True):
    """A candidate's place in the order."""

    rank: int
    """From 1, which is asked first."""
    candidate: Candidate
    predicted_ttft_s: float
    cost_s: float | None
    """What the strategy ranked by; None where it does not think in seconds."""


class Explanation(msgspec.Struct, frozen=True):
    """What a `Dispatcher` would do with a request."""

    request: Request
    strategy: str
    """The one that ranks: the model's, or the one that the request asks for."""
    effective: Effective
    reason: Reason
    places: list[Place]
    """In their order."""
    excluded: list[Excluded]


def effective_of(ranking: Ranking) -> Effective:
    """What the strategy comes to: one that has nothing to choose from is none."""
    if len(ranking.order) > 1:
        return ranking.effective
    return "only_candidate" if ranking.order else "none"


def places_of(request: Request, order: list[Candidate], costs_s: Mapping[WorkerId, float]) -> list[Place]:
    return [
        Place(rank, candidate, predicted_ttft_s(request, candidate), costs_s.get(candidate.worker))
        for rank, candidate in enumerate(order, start=1)
    ]


def predicted_ttft_s(request: Request, candidate: Candidate) -> float:
    """Seconds to the first token of *request* on *candidate*: backlog and prefill, both on the slow side."""
    return candidate.load.backlog_s + prefill_s(request, candidate)


def prefill_s(request: Request, candidate: Candidate) -> float:
    """Seconds that the prefill of *request* takes on *candidate* once it begins."""
    load = candidate.load
    uncached_tokens = max(1.0, request.prompt_tokens - candidate.hit_tokens)
    return load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token
