"""Why a request went where it went, as far as the cache goes."""

from typing import Literal

from routing.candidate import Candidate

Reason = Literal["hit", "spread", "cold", "none"]
"""hit: no candidate holds more; spread: one does, but costs more; cold: nobody holds any; none: nobody is there."""


def reason_of(order: list[Candidate]) -> Reason:
    """Why the first of *order* is first."""
    if not order:
        return "none"
    longest = max([candidate.hit_blocks for candidate in order])
    if longest == 0:
        return "cold"
    return "hit" if order[0].hit_blocks == longest else "spread"
