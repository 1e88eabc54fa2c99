"""Strategy least_loaded, which prefers the worker with the fewest requests in flight."""

import copy
import random
from collections.abc import Sequence
from typing import ClassVar

from routing.candidate import Candidate
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.strategy import Ranking


class LeastLoaded:
    """Strategy that ranks workers by fewest requests in flight. *ties* or chance breaks ties for the first position."""

    is_late_bound: ClassVar[bool] = False
    ranks_by_cost: ClassVar[bool] = False
    accepts_any_worker: ClassVar[bool] = True
    needs_events: ClassVar[bool] = False

    def __init__(self, rng: random.Random, ties: Rendezvous | None = None) -> None:
        self._rng = rng
        self._ties = ties

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        order = sorted(candidates, key=lambda candidate: (candidate.load.in_flight, self._rng.random()))
        if self._ties is None or len(order) < 2:
            return order
        tied = [candidate for candidate in order if candidate.load.in_flight == order[0].load.in_flight]
        return (self._ties.order(request, tied) or tied) + order[len(tied) :]

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        twin = LeastLoaded(copy.copy(self._rng), self._ties)
        loads = {candidate.load.in_flight for candidate in candidates}
        return Ranking(twin.rank(request, candidates), "least_loaded" if len(loads) > 1 else "random")
