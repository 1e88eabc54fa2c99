"""Making something once, however often the request for it is repeated with the same `Idempotency-Key`."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gateway.api.admin_v1.claims import HEADER, Claim, Claims
from gateway.errors import Conflict


class Made(NamedTuple):
    name: str
    repeats: bool
    """It was there already: the request is a repetition."""


async def made_once(
    claim: Claim,
    claims: Claims,
    *,
    exists: Callable[[str], Awaitable[bool]],
    make: Callable[[str], Awaitable[None]],
) -> Made:
    """What *make*, given a name, makes.

    It raises Conflict where something of the name is there. What was made, and is no more, is made anew.

    Raises:
        Conflict: the header was used for another request; or somebody else has made something of the name.
    """
    kept = await claims.find(claim.id)
    if kept is None:
        if await exists(claim.made):
            raise Conflict(f"{claim.made!r} is there already")
        kept = await claims.take(claim)
    if kept.body != claim.body:
        raise Conflict("This idempotency-key was used for another request within the last 24 hours", param=HEADER)
    if await exists(kept.made):
        return Made(kept.made, repeats=True)
    try:
        await make(kept.made)
    except Conflict:
        await claims.release(kept.id)  # it is not ours
        raise
    return Made(kept.made, repeats=False)
