"""Claims of requests with an `Idempotency-Key`, so that a repetition is not done twice."""

import hashlib
import re
from typing import Annotated, Protocol

import msgspec
from fastapi import Header

from gateway.api.admin_v1.bodies import RequestBody
from gateway.protocol.errors import InvalidField

LIFETIME_S = 86400
"""Time in which a repetition is recognized."""

HEADER = "idempotency-key"

IdempotencyKey = Annotated[str | None, Header(alias=HEADER)]
"""The header of a request, for its route."""


class Claim(msgspec.Struct, frozen=True):
    """*id* is the header's, of one admin key and one route; it holds nothing of either in clear."""

    id: str
    body: str
    """A digest of what was asked, whichever way it was spelt."""
    made: str
    """Name of the team, or id of the key, that the first request made or was to make. Behind a space may stand the
    seed of the secret that goes with it, and behind another one the state that a change began from.
    """


class Claims(Protocol):
    """Claims are kept for `LIFETIME_S`, for all gateways that share the store."""

    async def find(self, claim_id: str) -> Claim | None:
        """The claim of that id, if there is one.

        Raises:
            StoreUnavailable: the claims cannot be read.
        """
        ...

    async def take(self, claim: Claim) -> Claim:
        """*claim*, which is kept from then on; or, if its id was there, the one that is kept already. Atomic.

        Raises:
            StoreUnavailable: it may have been taken or not.
        """
        ...

    async def release(self, claim_id: str) -> None:
        """Forget it, if it is there.

        Raises:
            StoreUnavailable: it may have been forgotten or not.
        """
        ...


def claim_of(key: str | None, *, admin: str, route: str, body: RequestBody, makes: str) -> Claim | None:
    """Return the claim of a request of *admin* with the header *key*; None without the header.

    Raises:
        InvalidField: it is no such header.
    """
    if key is None:
        return None
    if not re.fullmatch(r"[ -~]{1,255}", key):
        raise InvalidField("The header 'idempotency-key' must be 1 to 255 printable characters", param=HEADER)
    return Claim(_digest(f"{admin}\n{route}\n{key}"), _digest(body.model_dump_json()), makes)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
