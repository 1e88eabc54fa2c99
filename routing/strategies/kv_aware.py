"""The cost of prefix_aware, on what engines tell of their caches; its requests are bound late."""

import random
from collections.abc import Sequence

import msgspec

from routing.candidate import Candidate
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.strategies.prefix_aware import PrefixAware
from routing.strategy import Ranking


class KvAware:
    """Lowest cost first, as `PrefixAware` counts it.

    What makes the difference is where hits are known from, and when a request is released: see `Fleet` and
    `LateBinding`. Where no engine tells, the order is that of prefix_aware, and `explain` says so.
    """

    def __init__(self, rng: random.Random, ties: Rendezvous | None = None) -> None:
        self._by_cost = PrefixAware(rng, ties)

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        return self._by_cost.rank(request, candidates)

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        ranking = self._by_cost.explain(request, candidates)
        if ranking.effective != "prefix_aware" or all(c.source == "shadow" for c in candidates):
            return ranking
        return msgspec.structs.replace(ranking, effective="kv_aware")
