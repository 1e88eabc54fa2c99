"""Whoever has the fewest requests in flight."""

import copy
import random
from collections.abc import Sequence

from routing.candidate import Candidate
from routing.request import Request
from routing.strategy import Ranking


class LeastLoaded:
    """Fewest requests in flight first, ties at random."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:  # noqa: ARG002
        return sorted(candidates, key=lambda candidate: (candidate.load.in_flight, self._rng.random()))

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        twin = LeastLoaded(copy.copy(self._rng))
        loads = {candidate.load.in_flight for candidate in candidates}
        return Ranking(twin.rank(request, candidates), "least_loaded" if len(loads) > 1 else "random")
