"""Worker pools. A request uses the next pool only if all earlier pools are too busy.

Each pool has a number, called its tier, and the lowest tier is used first. This module does not know the reason for the
order, for example owned machines before rented ones.
"""

from collections.abc import Sequence
from typing import Final

from cache_index.value import Value
from routing.candidate import Candidate


class Reach(Value):
    """Candidate workers of one request, divided into those that it can use now and its reserves."""

    __match_args__ = ("near", "far")
    __slots__ = __match_args__

    def __init__(
        self,
        near: list[Candidate],
        far: list[Candidate],
    ) -> None:
        self.near: Final = near
        self.far: Final = far
        """Reserve workers, in the order in which they are tried after all near candidates have failed."""


def reach(candidates: Sequence[Candidate], tiers: Sequence[int], waits_s: Sequence[float], longest_s: float) -> Reach:
    """Divide *candidates* into near candidates and reserves. A pool is near if it is the first one, or if the wait in
    all earlier pools is too long.

    *tiers* and *waits_s* give the tier and the predicted wait for each candidate. A wait is too long if it exceeds
    *longest_s* seconds. Reserves are sorted by tier and, within a tier, by backlog.
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
