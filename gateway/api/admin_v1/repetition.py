"""Execution of requests with an `Idempotency-Key`: a repeated request has no second effect."""

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
"""Header of the response to a repeated request."""


class MadeOnce(NamedTuple):
    name: str
    repeats: bool
    """Whether the request repeats an earlier request."""
    seed: str = ""
    """Seed from which the object's secret is derived, or an empty string for an object without a secret."""


async def made_once(
    claim: Claim,
    claims: Claims,
    *,
    exists: Callable[[str], Awaitable[bool]],
    make: Callable[[str, str], Awaitable[None]],
) -> MadeOnce:
    """Create an object once by calling *make* with the name and seed in the request record. Return the object.

    *make* must raise Conflict if an object of that name exists. An object that was created and then deleted is created
    again.

    Raises:
        Conflict: if the header was used for a different request, or a different request created an object of the same
            name.
    """
    kept = await claims.find(claim.id)
    if kept is None:
        wanted = claim.made.partition(" ")[0]
        if await exists(wanted):
            raise Conflict(f"{wanted!r} already exists")
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
    """Return the record of the first request with the same idempotency key, which can be *claim* itself.

    Raises:
        Conflict: if the header was used for a different request.
        StoreUnavailable: if the claims cannot be read.
    """
    kept = await claims.take(claim)
    if kept.body != claim.body:
        raise Conflict("This idempotency-key was used for another request within the last 24 hours", param=HEADER)
    return kept


def new_seed() -> str:
    """Return a random seed without spaces for `repeatable_secret`."""
    return secrets.token_urlsafe(SEED_BYTES)


def repeatable_secret(key_id: str, *, seed: str, header: str, admin_secret: str) -> str:
    """Derive the secret of the key *key_id* from *seed*. Every repetition of a request derives the same secret.

    The seed is saved for a day, but the secret is not. Deriving the secret also requires *admin_secret*, which callers
    send with every request and no store contains, and the idempotency key *header*, of which stores contain only a
    digest. For a person, *admin_secret* is the token of the request, so a request that is repeated with another token
    derives another secret.
    """
    parts = f"warmgate key secret\n{key_id}\n{seed}\n{header}"
    drawn = hmac.digest(admin_secret.encode("utf-8", "surrogateescape"), parts.encode(), hashlib.sha256)
    return f"wg-{key_id}-{base64.urlsafe_b64encode(drawn).rstrip(b'=').decode()}"
