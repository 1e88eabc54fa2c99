"""Record of a routing decision, kept for the receipt of the request: the candidates in the order of their ranking."""

from collections.abc import Sequence
from typing import Final

from routing.candidate import Candidate, WhyNot
from routing.dispatcher import Dispatch
from routing.fleet import Fleet
from routing.strategies.prefix_aware import externality_at

MAX_CANDIDATES: Final = 8
"""Maximum number of candidates to keep. If there are more, these are the first ones and the one with the longest cache
hit.
"""
FIRST_RANKS: Final = tuple(range(1, MAX_CANDIDATES + 1))
MAX_EXCLUDED: Final = 8
"""Maximum number of excluded workers to keep."""


class Decision:
    """Candidates and excluded workers of one dispatch. It holds no more than a stream of minutes can afford."""

    __slots__ = ("at", "candidates", "count", "excluded", "price", "ranked", "ranks", "request")

    def __init__(self, dispatch: Dispatch, fleet: Fleet, at: float) -> None:
        """Keep the decision *dispatch* of *fleet*, made at the monotonic time *at* in seconds."""
        order = dispatch.order
        self.at = at
        self.request = dispatch.request
        self.count = len(order)
        """Number of candidates, including those that are not kept."""
        self.ranked = len(order) - dispatch.reserves
        """Number of candidates that the strategy ranked. The others belong to later pools of workers."""
        self.price = 1.0 + _externality(order, self.ranked)
        """Factor on each second of prefill in the cost of a candidate, which grows with the load of the fleet."""
        self.ranks: Sequence[int] = FIRST_RANKS if len(order) <= MAX_CANDIDATES else _most_telling(order)
        """Positions of the kept candidates in the order in which the workers were to be tried, from 1."""
        self.candidates = order if len(order) <= MAX_CANDIDATES else [order[rank - 1] for rank in self.ranks]
        """Kept candidates, in this order."""
        self.excluded: list[tuple[str, WhyNot]] | None = None
        """Workers that were not candidates, each with the reason, or None if all workers were candidates."""
        if len(order) < fleet.size:
            self.excluded = fleet.left_out(dispatch.request, order, MAX_EXCLUDED)


def _externality(order: list[Candidate], ranked: int) -> float:
    """Return the externality of the first *ranked* workers in *order*, without making a list for every request."""
    busy = 0.0
    for place in range(ranked):
        busy += order[place].load.busy_share
    return externality_at(busy / max(1, ranked))


def _most_telling(order: list[Candidate]) -> Sequence[int]:
    """Return the ranks of the candidates to keep of a long *order*."""
    hits = [candidate.hit_blocks for candidate in order]
    longest = hits.index(max(hits)) + 1
    return FIRST_RANKS if longest <= MAX_CANDIDATES else (*FIRST_RANKS[:-1], longest)
