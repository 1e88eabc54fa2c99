"""The seam behind which a routing policy lives."""

from collections.abc import Sequence
from typing import Protocol

from routing.candidate import Candidate
from routing.request import Request


class Strategy(Protocol):
    """Ranks candidates. Feedback goes to the fleet and the index, never to a strategy."""

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        """All of *candidates*, best first: failover takes the next one without asking again."""
        ...
