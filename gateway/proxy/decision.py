"""Record of a routing decision, kept for the receipt of the request: the candidates in the order of their ranking."""

from typing import Final

from cache_index.native import mypyc_attr
from routing.candidate import Candidate, WhyNot
from routing.dispatcher import Dispatch
from routing.fleet import Fleet
from routing.strategies.prefix_aware import price_of

MAX_CANDIDATES: Final = 8
"""Maximum number of candidates to keep. If there are more, these are the first ones and the one with the longest cache
hit.
"""
MAX_EXCLUDED: Final = 8
"""Maximum number of excluded workers to keep."""


@mypyc_attr(acyclic=True)
class Decision:
    """Candidates and excluded workers of one dispatch. It holds no more than a stream of minutes can afford."""

    __slots__ = ("at", "candidates", "count", "excluded", "last_rank", "price", "ranked", "request")

    def __init__(self, dispatch: Dispatch, fleet: Fleet, at: float) -> None:
        """Keep the decision *dispatch* of *fleet*, made at the monotonic time *at* in seconds."""
        order = dispatch.order
        self.at = at
        self.request = dispatch.request
        self.count = len(order)
        """Number of candidates, including those that are not kept."""
        self.ranked = len(order) - dispatch.reserves
        """Number of candidates that the strategy ranked. The others belong to later pools of workers."""
        self.price = price_of(order[0].load.busy_share) if order else 1.0
        """Factor on each second of prefill in the cost of the first candidate, which grows with its worker's load."""
        self.candidates = order
        """Kept candidates, in the order in which the workers were to be tried."""
        self.last_rank = len(order)
        """Position of the last kept candidate in this order, from 1. The candidates before it have no gaps."""
        if len(order) > MAX_CANDIDATES:
            self.last_rank = _rank_of_longest_hit(order)
            self.candidates = [*order[: MAX_CANDIDATES - 1], order[self.last_rank - 1]]
        self.excluded: list[tuple[str, WhyNot]] | None = None
        """Workers that were not candidates, each with the reason, or None if all workers were candidates."""
        if len(order) < fleet.size:
            self.excluded = fleet.left_out(dispatch.request, order, MAX_EXCLUDED)


def _rank_of_longest_hit(order: list[Candidate]) -> int:
    """Return the position of the longest cache hit in *order*, or `MAX_CANDIDATES` if that is among the first."""
    hits = [candidate.hit_blocks for candidate in order]
    return max(MAX_CANDIDATES, hits.index(max(hits)) + 1)
