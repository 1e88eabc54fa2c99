"""Strategy prefix_aware, which prefers the worker with the lowest cost. The cost, in seconds, is the sum of the
backlog, the time to compute the uncached part of the prompt, and the slowdown of running decodes.

The cost also includes recomputing the cached blocks that the prompt evicts.
"""

import copy
import random
from collections.abc import Sequence
from typing import ClassVar, Final

from routing.candidate import Candidate
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.strategy import Ranking

EXTERNALITY_LIMIT: Final = 4.0
"""Maximum additional cost of a second of prefill, in seconds of delay for later requests."""
DECODE_PRICE: Final = 0.02
"""Seconds of time to first token that are worth one second of slower generation.

At 0.4 ms per token and running request, and 250 tokens per answer, each running request costs 2 ms. This value did best
in replays of real traces.
"""


class PrefixAware:
    """Strategy that ranks workers by lowest cost first. Ties are broken at random, or by *ties* so that gateway
    replicas choose the same worker.

    Uncached work costs more on a busy worker, because it delays later requests. If a worker is busy with prefill for
    a share rho of the time, each second of prefill costs rho / (1 - rho) extra seconds. On an idle fleet the extra cost
    is zero, so a hot prefix spreads. On a busy fleet the cache decides. Equally fast workers have one price, see
    `usual_busy_share`. Evicted blocks that will be needed again count as uncached work too, so a new session begins
    where the cache has room or holds blocks that are no longer used.
    """

    is_late_bound: ClassVar[bool] = False
    ranks_by_cost: ClassVar[bool] = True
    accepts_any_worker: ClassVar[bool] = False
    needs_events: ClassVar[bool] = False

    def __init__(self, rng: random.Random, ties: Rendezvous | None = None) -> None:
        self._rng = rng
        self._ties = ties

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        if len(candidates) < 2:
            return list(candidates)
        if self._ties is None:
            return sorted(candidates, key=lambda candidate: (cost_s(request, candidate), self._rng.random()))
        return self._rank_alike(request, candidates, self._ties)

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        twin = PrefixAware(copy.copy(self._rng), self._ties)
        costs_s = {candidate.worker: cost_s(request, candidate) for candidate in candidates}
        return Ranking(twin.rank(request, candidates), _effective(candidates, set(costs_s.values())), costs_s)

    def _rank_alike(self, request: Request, candidates: Sequence[Candidate], ties: Rendezvous) -> list[Candidate]:
        costs_s = [cost_s(request, candidate) for candidate in candidates]
        most_s = min(costs_s) + ties.tie_s
        tied = [candidate for candidate, cost in zip(candidates, costs_s, strict=True) if cost <= most_s]
        first = ties.order(request, tied) if len(tied) > 1 else tied
        if first is None:  # a prompt of less than a block
            tied, first = [], []
        others = [(c, cost) for c, cost in zip(candidates, costs_s, strict=True) if not tied or cost > most_s]
        return first + [c for c, _ in sorted(others, key=lambda each: (each[1], self._rng.random()))]


def price_of(busy_share: float) -> float:
    """Return the cost of a second of prefill on a worker that is busy with prefill for *busy_share* of the time.

    It is one second of waiting for the request itself, and the seconds of delay for later requests.
    """
    return 1.0 + min(EXTERNALITY_LIMIT, busy_share / max(1e-9, 1.0 - busy_share))


def cost_s(request: Request, candidate: Candidate) -> float:
    """Return the cost of *request* on *candidate* in seconds."""
    load = candidate.load
    price = price_of(load.busy_share)
    # An engine computes the last token of a prompt even if it has cached all of it.
    uncached_tokens = max(1.0, request.prompt_tokens - candidate.hit_tokens)
    prefill_s = load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token
    slower_s = load.decode_s_per_token * load.in_flight * request.output_tokens
    computed_s = prefill_s + candidate.load_s + candidate.evicts_s
    later_s = slower_s * DECODE_PRICE + candidate.displaces_s
    return load.backlog_s + computed_s * price + later_s + candidate.zone_penalty_s


def _effective(candidates: Sequence[Candidate], costs_s: set[float]) -> str:
    if len(costs_s) < 2:
        return "random"
    hits = {candidate.hit_tokens for candidate in candidates}
    return "prefix_aware" if len(hits) > 1 else "load_alone"
