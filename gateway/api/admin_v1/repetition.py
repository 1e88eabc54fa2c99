"""Making or changing something once, however often the request is repeated with the same `Idempotency-Key`."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gateway.api.admin_v1.claims import HEADER, Claim, Claims
from gateway.protocol.errors import Conflict

SEED_BYTES = 24
REPLAYED = {"idempotent-replayed": "true"}
"""Header of an answer to a repeated request."""


class MadeOnce(NamedTuple):
    name: str
    repeats: bool
    """Whether the request is a repetition."""
    seed: str = ""
    """Seed of its secret; empty: it has no secret."""


async def made_once(
    claim: Claim,
    claims: Claims,
    *,
    exists: Callable[[str], Awaitable[bool]],
    make: Callable[[str, str], Awaitable[None]],
) -> MadeOnce:
    """Call *make* once with a name and the seed of the claim, and return what it made.

    It raises Conflict where something of the name is there. What was made and deleted is made again.

    Raises:
        Conflict: the header was used for another request; or somebody else has made something of the name.
    """
    kept = await claims.find(claim.id)
    if kept is None:
        wanted = claim.made.partition(" ")[0]
        if await exists(wanted):
            raise Conflict(f"{wanted!r} is there already")
    kept = await kept_claim(claim, claims)
    name, _, seed = kept.made.partition(" ")
    if await exists(name):
        return MadeOnce(name, repeats=True, seed=seed)
    try:
        await make(name, seed)
    except Conflict:
        await claims.release(kept.id)  # it is not ours
        raise
    return MadeOnce(name, repeats=False, seed=seed)


async def kept_claim(claim: Claim, claims: Claims) -> Claim:
    """Return the claim of the first request that came with the header of *claim*, which may be this one.

    Raises:
        Conflict: the header was used for another request.
        StoreUnavailable: the claims cannot be read.
    """
    kept = await claims.take(claim)
    if kept.body != claim.body:
        raise Conflict("This idempotency-key was used for another request within the last 24 hours", param=HEADER)
    return kept


def new_seed() -> str:
    """Return random text without spaces for `repeatable_secret`."""
    return secrets.token_urlsafe(SEED_BYTES)


def repeatable_secret(key_id: str, *, seed: str, header: str, admin_secret: str) -> str:
    """Return the secret of the key *key_id* that goes with *seed*: the same one for every repetition of a request.

    The seed is kept for a day, and the secret is not: it can be derived only with *admin_secret*, which a caller sends
    with every request and no store has, and with the idempotency key *header*, of which stores have a digest.
    """
    parts = f"warmgate key secret\n{key_id}\n{seed}\n{header}"
    drawn = hmac.digest(admin_secret.encode("utf-8", "surrogateescape"), parts.encode(), hashlib.sha256)
    return f"wg-{key_id}-{base64.urlsafe_b64encode(drawn).rstrip(b'=').decode()}"
