"""Prompts computed on some workers and answers generated on others: who generates, and whether it is worth the way.

A decode worker is chosen first, by what the request costs there. Where it lacks much of the prompt, a prefill worker
computes it, and the decode worker fetches the blocks (the hop); where it lacks little it computes that itself. What it
holds already need neither be computed nor fetched. Who computes is for the strategy of the model to say, among the
prefill workers: there the prefix matters.
"""

import copy
import random
from collections.abc import Sequence

import msgspec

from routing.candidate import Candidate
from routing.fit import LinearFit, Sample
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.strategy import Ranking

HOP_S = 0.02
"""Fixed cost of a hop before any is measured: one more request over HTTP, and a step of either engine."""
FETCH_S_PER_TOKEN = 5e-6
"""Before any is measured: 128 KiB of KV for each token, as of an 8B model with grouped queries (32 layers, 8 heads of
128, 16 bits), over a link of 200 Gbit/s."""


class Handover:
    """What a hop costs besides the prefill: seconds over fetched tokens, learnt by all workers of a model together."""

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
        """From the end of a prefill to the first token elsewhere, of which *tokens* are fetched."""
        return self._line.predict(tokens)

    def learn(self, tokens: float, measured_s: float) -> None:
        """So long it took. What took much longer than expected waited for something else than the link."""
        self._line.learn(tokens, min(measured_s, 4.0 * self._line.predict(tokens) + 1.0))


class Rule(msgspec.Struct, frozen=True):
    """When a prefill worker is asked."""

    least_uncached_tokens: int | None = None
    """As many tokens have to be missing on the decode worker; None: as many as make the hop worth it."""
    always: bool = False
    """Decode workers cannot compute a prompt, however short."""


class ByDecodeLoad:
    """A `Strategy` over the workers that answer: lowest cost in seconds first, ties at random, or as *ties* has them.

    The cost is what stands before the request, its prefill or its hop, and what the running answers there would slow
    it down. Candidates of its orders say in `remote_tokens` what they would fetch.
    """

    def __init__(self, rng: random.Random, handover: Handover, rule: Rule, ties: Rendezvous | None = None) -> None:
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
        """Seconds that *request* costs on *candidate*, which says whether it would hop."""
        load = candidate.load
        if candidate.remote_tokens > 0.0:
            first_s = self._handover.seconds(candidate.remote_tokens)
        else:
            first_s = here_s(request, candidate) + candidate.load_s
        slower_s = load.decode_s_per_token * load.in_flight * request.output_tokens
        return load.backlog_s + first_s + slower_s + candidate.way_s

    def least_tokens(self, candidate: Candidate) -> float:
        """From how many missing tokens on a hop is worth it, wherever the prompt is computed; inf: never."""
        if self._rule.least_uncached_tokens is not None:
            return float(self._rule.least_uncached_tokens)
        load = candidate.load
        saved_s = (
            load.prefill_s_per_token * _standing(candidate) - load.prefill_s_per_token - self._handover.s_per_token
        )
        return self._handover.overhead_s / saved_s if saved_s > 0.0 else float("inf")

    def pays(self, request: Request, decode: Candidate, prefill: Candidate) -> bool:
        """Whether *prefill* should compute for *decode*, which was to hop, as busy as *prefill* is at this moment."""
        if self._rule.always or self._rule.least_uncached_tokens is not None:
            return True
        load = prefill.load
        uncached_tokens = max(1.0, request.prompt_tokens - prefill.hit_tokens)
        prefill_s = load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token + prefill.load_s
        there_s = load.backlog_s + prefill_s + self._handover.seconds(decode.remote_tokens) + prefill.way_s
        return there_s < decode.load.backlog_s + here_s(request, decode) + decode.load_s

    def _is_stuck(self, request: Request, candidate: Candidate) -> bool:
        """Whether it needs a prefill worker for a request that none can compute for it."""
        return self._rule.always and candidate.fetches and not request.divides

    def _hopping(self, request: Request, candidate: Candidate) -> Candidate:
        """*candidate* with what it would fetch of *request*."""
        if not request.divides or not candidate.fetches:
            return candidate
        missing = max(1.0, request.prompt_tokens - candidate.hit_tokens)
        if not self._rule.always and missing < self.least_tokens(candidate):
            return candidate
        return candidate.changed(remote_tokens=missing)


def plain(candidate: Candidate) -> Candidate:
    """*candidate* as one that computes what it lacks."""
    return candidate.changed(remote_tokens=0.0) if candidate.remote_tokens else candidate


def here_s(request: Request, candidate: Candidate) -> float:
    """What a prefill on *candidate* costs: while it lasts, each answer that it generates stands still as well."""
    load = candidate.load
    uncached_tokens = max(1.0, request.prompt_tokens - candidate.hit_tokens)
    return load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token * _standing(candidate)


def _standing(candidate: Candidate) -> float:
    """Requests that wait while *candidate* computes a prompt: its own, those that run, and one that may come."""
    return 2.0 + candidate.load.decodes if candidate.fetches else 1.0 + candidate.load.decodes
