"""Pools of workers: a request may use the next pool only if all pools before it are too busy.

Each pool has a number, its tier; the lowest goes first. The reasons for the order (own machines before rented ones,
near before far) are not known here.
"""

from collections.abc import Sequence
from typing import Final

from cache_index.value import Value
from routing.candidate import Candidate


class Reach(Value):
    """The candidates of one request: those that it may choose, and the others."""

    __match_args__ = ("near", "far")
    __slots__ = __match_args__

    def __init__(
        self,
        near: list[Candidate],
        far: list[Candidate],
    ) -> None:
        self.near: Final = near
        self.far: Final = far
        """Reserves, in the order in which to try them when all near candidates have failed."""


def reach(candidates: Sequence[Candidate], tiers: Sequence[int], waits_s: Sequence[float], longest_s: float) -> Reach:
    """Divide *candidates*: near are the lowest tier, and each further one if the wait in all before it is too long.

    *tiers* and *waits_s* are the pool of each candidate and the wait there. A wait up to *longest_s* is not too long.
    Reserves are in the order of their tiers and, within a tier, of their backlogs.
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
