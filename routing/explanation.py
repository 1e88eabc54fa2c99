"""Explanation of a routing decision: the worker that a request would go to now, and the reason."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from cache_index import WorkerId
from routing.candidate import Candidate, Excluded
from routing.request import Request
from routing.strategy import Ranking

Reason = Literal["hit", "spread", "cold", "none"]
"""Reason for the choice of the first worker. "hit": no candidate has a longer cache hit. "spread": another candidate
has a longer hit but costs more. "cold": no candidate has cached any block of the prompt. "none": there are no
candidates.
"""
SPARE_SHARE = 0.2
"""Share of the caller's time limit that is left when a waiting request becomes urgent."""


class Place(msgspec.Struct, frozen=True):
    """Position of one candidate worker in the order in which candidates are tried."""

    rank: int
    """Rank of the candidate. The candidate that is tried first has rank 1."""
    candidate: Candidate
    predicted_ttft_s: float
    cost_s: float | None
    """Cost by which the strategy ranked the candidate, in seconds, or None if the strategy does not rank by cost."""


class Explanation(msgspec.Struct, frozen=True):
    """Explanation of the dispatcher's decision about a request."""

    request: Request
    strategy: str
    """Name of the ranking strategy: the model's strategy, or the one that the request selects."""
    effective: str
    reason: Reason
    places: list[Place]
    """Candidate workers in the order in which they are tried."""
    excluded: list[Excluded]
    waits_for: WorkerId | None = None
    """Worker that is computing a long prefix of the prompt. The request waits for the prefix, unless so many requests
    wait for it that a copy on another worker is worth its cost.
    """


def reason_of(order: list[Candidate]) -> Reason:
    """Return the reason why the first candidate in *order* was chosen."""
    if not order:
        return "none"
    longest = 0
    for candidate in order:
        if candidate.hit_blocks > longest:  # noqa: PLR1730  # compiled, max() takes three times as long
            longest = candidate.hit_blocks
    if longest == 0:
        return "cold"
    return "hit" if order[0].hit_blocks == longest else "spread"


def effective_of(ranking: Ranking) -> str:
    """Return what determined the candidates' order: a strategy, or a marker if there were fewer than two."""
    if len(ranking.order) > 1:
        return ranking.effective
    return "only_candidate" if ranking.order else "none"


def places_of(request: Request, order: list[Candidate], costs_s: Mapping[WorkerId, float]) -> list[Place]:
    return [
        Place(rank, candidate, predicted_ttft_s(request, candidate), costs_s.get(candidate.worker))
        for rank, candidate in enumerate(order, start=1)
    ]


def predicted_ttft_s(request: Request, candidate: Candidate) -> float:
    """Return the predicted seconds to the first token of *request* on *candidate*, rather too many than too few."""
    return candidate.load.backlog_s + prefill_s(request, candidate)


def prefill_s(request: Request, candidate: Candidate) -> float:
    """Return the seconds that the prefill of *request* takes on *candidate* once it begins."""
    load = candidate.load
    uncached_tokens = max(1.0, request.prompt_tokens - candidate.hit_tokens)
    return load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token


def longest_wait_s(within_s: float, prefill_s: float) -> float:
    """Return the longest time in seconds that a request can wait if its first token is due *within_s* seconds after
    arrival.

    A prefill takes *prefill_s* seconds, but this is only a prediction. Some waiting time is therefore always allowed.
    Otherwise an idle worker would refuse every request, and no measurement could correct a wrong prediction.
    """
    return max(within_s - prefill_s, within_s * SPARE_SHARE)
