"""Strategy kv_aware, which uses the cost model of prefix_aware, cache hits that engines report, and late binding."""

import random
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from routing.candidate import Candidate
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.strategies.prefix_aware import PrefixAware
from routing.strategy import Ranking


class KvAware:
    """Strategy that ranks workers by lowest cost first, with the cost model of `PrefixAware`.

    It differs from `PrefixAware` in the source of the cache hits (see `CacheView`) and in the time of release (see
    `LateBinding`). If no engine reports its cache, the order is that of prefix_aware, and `explain` reports this.
    """

    is_late_bound: ClassVar[bool] = True
    ranks_by_cost: ClassVar[bool] = True
    accepts_any_worker: ClassVar[bool] = False
    needs_events: ClassVar[bool] = True

    def __init__(self, rng: random.Random, ties: Rendezvous | None = None) -> None:
        self._by_cost = PrefixAware(rng, ties)

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        return self._by_cost.rank(request, candidates)

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        ranking = self._by_cost.explain(request, candidates)
        if ranking.effective != "prefix_aware" or all(c.source == "predicted" for c in candidates):
            return ranking
        return msgspec.structs.replace(ranking, effective="kv_aware")
