"""Strategy round_robin, which sends requests to the workers in turn."""

import random
from collections.abc import Sequence
from typing import ClassVar

from routing.candidate import Candidate
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.strategy import Ranking


class RoundRobin:
    """Strategy that ranks workers in a fixed circular order. Each request advances the start by one worker."""

    is_late_bound: ClassVar[bool] = False
    ranks_by_cost: ClassVar[bool] = False
    accepts_any_worker: ClassVar[bool] = True
    needs_events: ClassVar[bool] = False

    def __init__(self, rng: random.Random | None = None, ties: Rendezvous | None = None) -> None:  # noqa: ARG002  # nothing is random
        self._turn = 0

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:  # noqa: ARG002
        circle = self._circle(candidates)
        self._turn += 1
        return circle

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:  # noqa: ARG002
        return Ranking(self._circle(candidates), "round_robin")

    def _circle(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        circle = sorted(candidates, key=lambda candidate: candidate.worker)
        start = self._turn % max(1, len(circle))
        return circle[start:] + circle[:start]
