"""Disaggregated serving: prefill workers compute prompts, and decode workers generate the answers.

The decode worker is chosen first, by the cost of the request there. If much of the prompt is missing from its cache, a
prefill worker computes the missing part, and the decode worker fetches the blocks. This transfer is called a hop in the
code. If little is missing, the decode worker computes that part itself. Cached blocks are neither computed nor fetched.
The model's strategy chooses among the prefill workers, because their prefix caches matter.
"""

import copy
import random
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from routing.candidate import Candidate
from routing.learning.fit import LinearFit, Sample
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.strategy import Ranking

HOP_S = 0.02
"""Initial estimate of the fixed cost of a KV transfer in seconds: an HTTP request, and one step of each engine."""
FETCH_S_PER_TOKEN = 5e-6
"""Initial estimate of the KV transfer time per token, in seconds. A token has 128 KiB of KV cache, as in an 8B model
with grouped-query attention (32 layers, 8 KV heads of 128, 16 bits), and the link has 200 Gbit/s.
"""


class Handover:
    """Learned cost of a KV transfer in seconds, as a function of the transferred tokens, for all workers of a model."""

    def __init__(self) -> None:
        at_4096_s = HOP_S + 4096.0 * FETCH_S_PER_TOKEN
        self._line = LinearFit(Sample(0.0, HOP_S), Sample(4096.0, at_4096_s, 0.2))

    @property
    def overhead_s(self) -> float:
        return self._line.intercept

    @property
    def s_per_token(self) -> float:
        return self._line.slope

    def seconds(self, tokens: float) -> float:
        """Return the seconds from the end of a prefill to the first token on a decode worker that fetches *tokens*
        tokens.
        """
        return self._line.predict(tokens)

    def learn(self, tokens: float, measured_s: float) -> None:
        """Learn from the measured time of a KV transfer. Outliers are capped, because they have other causes."""
        self._line.learn(tokens, min(measured_s, 4.0 * self._line.predict(tokens) + 1.0))


class HopRule(msgspec.Struct, frozen=True):
    """Conditions under which a separate prefill worker computes the prompt."""

    min_uncached_tokens: int | None = None
    """Number of uncached tokens from which a decode worker fetches them. If None, the predicted cost decides."""
    always: bool = False
    """Whether decode workers cannot compute prompts, so that every prompt needs a KV transfer."""


class ByDecodeLoad:
    """Strategy that ranks the answering workers by cost in seconds. Ties are broken at random, or by *ties* if given.

    The cost is the sum of the backlog, the prefill or the KV transfer, and the slowdown of the worker's other answers.
    The ranked candidates have the number of tokens to fetch in `remote_tokens`.
    """

    is_late_bound: ClassVar[bool] = False
    ranks_by_cost: ClassVar[bool] = False
    accepts_any_worker: ClassVar[bool] = True
    needs_events: ClassVar[bool] = False

    def __init__(self, rng: random.Random, handover: Handover, rule: HopRule, ties: Rendezvous | None = None) -> None:
        self._rng = rng
        self._handover = handover
        self._rule = rule
        self._ties = ties

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        hopping = [self._hopping(request, candidate) for candidate in candidates]
        order = sorted(
            hopping, key=lambda each: (self._is_stuck(request, each), self.cost_s(request, each), self._rng.random())
        )
        if self._ties is None or len(order) < 2:
            return order
        first = order[0]
        most_s, is_stuck = self.cost_s(request, first) + self._ties.tie_s, self._is_stuck(request, first)
        tied = [c for c in order if self.cost_s(request, c) <= most_s and self._is_stuck(request, c) == is_stuck]
        return (self._ties.order(request, tied) or tied) + [c for c in order if c not in tied]

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        order = ByDecodeLoad(copy.copy(self._rng), self._handover, self._rule, self._ties).rank(request, candidates)
        costs_s = {candidate.worker: self.cost_s(request, candidate) for candidate in order}
        return Ranking(order, "load_alone" if len(set(costs_s.values())) > 1 else "random", costs_s)

    def cost_s(self, request: Request, candidate: Candidate) -> float:
        """Return the cost of *request* on *candidate* in seconds, with a KV transfer if `remote_tokens` is not 0."""
        load = candidate.load
        if candidate.remote_tokens > 0.0:
            first_s = self._handover.seconds(candidate.remote_tokens)
        else:
            first_s = here_s(request, candidate) + candidate.load_s
        slower_s = load.decode_s_per_token * load.in_flight * request.output_tokens
        return load.backlog_s + first_s + slower_s + candidate.zone_penalty_s

    def min_tokens(self, candidate: Candidate) -> float:
        """Return the number of uncached tokens from which a KV transfer pays off, or infinity if it never does."""
        if self._rule.min_uncached_tokens is not None:
            return float(self._rule.min_uncached_tokens)
        load = candidate.load
        saved_s = (
            load.prefill_s_per_token * _standing(candidate) - load.prefill_s_per_token - self._handover.s_per_token
        )
        return self._handover.overhead_s / saved_s if saved_s > 0.0 else float("inf")

    def pays(self, request: Request, decode: Candidate, prefill: Candidate) -> bool:
        """Return whether the *prefill* worker should compute the prompt for the *decode* worker at this moment."""
        if self._rule.always or self._rule.min_uncached_tokens is not None:
            return True
        load = prefill.load
        uncached_tokens = max(1.0, request.prompt_tokens - prefill.hit_tokens)
        prefill_s = load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token + prefill.load_s
        there_s = load.backlog_s + prefill_s + self._handover.seconds(decode.remote_tokens) + prefill.zone_penalty_s
        return there_s < decode.load.backlog_s + here_s(request, decode) + decode.load_s

    def _is_stuck(self, request: Request, candidate: Candidate) -> bool:
        """Return whether the candidate needs a prefill worker but the request cannot be split between two workers."""
        return self._rule.always and candidate.fetches and not request.divides

    def _hopping(self, request: Request, candidate: Candidate) -> Candidate:
        """Return a copy of *candidate* with the number of tokens that it would fetch for *request*."""
        if not request.divides or not candidate.fetches:
            return candidate
        missing = max(1.0, request.prompt_tokens - candidate.hit_tokens)
        if not self._rule.always and missing < self.min_tokens(candidate):
            return candidate
        return candidate.changed(remote_tokens=missing)


def plain(candidate: Candidate) -> Candidate:
    """Return a copy of *candidate* that computes all uncached tokens itself."""
    return candidate.changed(remote_tokens=0.0) if candidate.remote_tokens else candidate


def here_s(request: Request, candidate: Candidate) -> float:
    """Return the seconds that a prefill on *candidate* costs, including the delay of answers generated there."""
    load = candidate.load
    uncached_tokens = max(1.0, request.prompt_tokens - candidate.hit_tokens)
    return load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token * _standing(candidate)


def _standing(candidate: Candidate) -> float:
    """Return the number of requests that have to wait while *candidate* computes a prompt."""
    return 2.0 + candidate.load.decodes if candidate.fetches else 1.0 + candidate.load.decodes
