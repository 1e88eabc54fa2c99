"""Pools of workers, and how far a request may go: its own pool first, the next one where all before it are too busy.

Why a pool comes before another (own machines before rented ones, near before far) is not known here: it has a number,
its tier, and the lowest goes first.
"""

from collections.abc import Sequence
from typing import Final

from cache_index.value import Value
from routing.candidate import Candidate


class Reach(Value):
    """The candidates of one request, by whether it may choose them."""

    __match_args__ = ("near", "far")
    __slots__ = __match_args__

    def __init__(
        self,
        near: list[Candidate],
        far: list[Candidate],
    ) -> None:
        self.near: Final = near
        self.far: Final = far
        """Reserves: to be tried when all of those have failed, in this order."""


def reach(candidates: Sequence[Candidate], tiers: Sequence[int], waits_s: Sequence[float], longest_s: float) -> Reach:
    """Who of *candidates* is near: the lowest tier, and each further one if in all before it the wait is too long.

    *tiers* and *waits_s* have the place of each candidate: its pool, and how long the request would wait there;
    *longest_s* is how long it may. Reserves are in the order of their tiers, in one by what they have to do.
    """
    last = 0
    for tier in sorted(set(tiers)):
        last = tier
        if min(wait_s for wait_s, other in zip(waits_s, tiers, strict=True) if other == tier) <= longest_s:
            break
    near = [candidate for candidate, tier in zip(candidates, tiers, strict=True) if tier <= last]
    far = [
        (tier, not candidate.admits, candidate.load.backlog_s, candidate.load.in_flight, place)
        for place, (candidate, tier) in enumerate(zip(candidates, tiers, strict=True))
        if tier > last
    ]
    return Reach(near, [candidates[each[-1]] for each in sorted(far)])
