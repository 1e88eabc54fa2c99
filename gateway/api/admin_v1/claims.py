"""Records of requests with an `Idempotency-Key`, so that a repeated request has no second effect."""

import hashlib
import re
from typing import Annotated, Protocol

import msgspec
from fastapi import Header

from gateway.api.admin_v1.bodies import RequestBody
from gateway.protocol.errors import InvalidField

LIFETIME_S = 86400
"""Number of seconds during which a repeated request is recognized."""

HEADER = "idempotency-key"

IdempotencyKey = Annotated[str | None, Header(alias=HEADER)]
"""Type of the idempotency-key parameter of a route."""


class Claim(msgspec.Struct, frozen=True):
    """Record of a request with an idempotency key. The *id* is a digest of the header, the admin key and the route."""

    id: str
    body: str
    """Digest of the request body that does not depend on its JSON formatting."""
    made: str
    """Name of the team or ID of the key that the first request creates or changes.

    Up to two values may follow, separated by spaces: the seed of the new secret, and the state before the change.
    """


class Claims(Protocol):
    """Storage for records of requests, kept for `LIFETIME_S` seconds and shared by all gateways with the same store."""

    async def find(self, claim_id: str) -> Claim | None:
        """Return the request record with the ID *claim_id*, or None if it does not exist.

        Raises:
            StoreUnavailable: if the claims cannot be read.
        """
        ...

    async def take(self, claim: Claim) -> Claim:
        """Save *claim* and return it, or return the record saved earlier with the same ID. The operation is atomic.

        Raises:
            StoreUnavailable: if the store did not reply. The claim may still have been saved.
        """
        ...

    async def release(self, claim_id: str) -> None:
        """Delete the request record with the ID *claim_id* if it exists.

        Raises:
            StoreUnavailable: if the store did not reply. The claim may still have been deleted.
        """
        ...


def claim_of(key: str | None, *, admin: str, route: str, body: RequestBody, makes: str) -> Claim | None:
    """Return the record for a request of *admin* with the idempotency key *key*, or None if *key* is None.

    Raises:
        InvalidField: if the header is malformed.
    """
    if key is None:
        return None
    if not re.fullmatch(r"[ -~]{1,255}", key):
        raise InvalidField("The header 'idempotency-key' must be 1 to 255 printable characters", param=HEADER)
    return Claim(_digest(f"{admin}\n{route}\n{key}"), _digest(body.model_dump_json()), makes)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
