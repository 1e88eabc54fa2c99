"""Strategy session, which sends all requests of one session to the same worker, whatever its load."""

import hashlib
import random
from collections.abc import Sequence
from typing import ClassVar

from cache_index import WorkerId
from routing.candidate import Candidate
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.strategies.least_loaded import LeastLoaded
from routing.strategy import Ranking


class Session:
    """Strategy that ranks workers by rendezvous hashing of session names. If a worker leaves, only its sessions move.

    A request without a session goes to the least loaded worker.
    """

    is_late_bound: ClassVar[bool] = False
    ranks_by_cost: ClassVar[bool] = False
    accepts_any_worker: ClassVar[bool] = False
    needs_events: ClassVar[bool] = False

    def __init__(self, rng: random.Random, ties: Rendezvous | None = None) -> None:
        self._without = LeastLoaded(rng, ties)

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        session = request.session
        if not session:
            return self._without.rank(request, candidates)
        return sorted(candidates, key=lambda candidate: weight(session, candidate.worker), reverse=True)

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        if not request.session:
            return self._without.explain(request, candidates)
        return Ranking(self.rank(request, candidates), "session")


def weight(session: str, worker: WorkerId) -> bytes:
    """Return the weight of *worker* for *session*, whose worker is the one with the highest weight. The weight is equal
    in all processes, so that gateway replicas agree.
    """
    return hashlib.blake2b(f"{session}\0{worker}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
