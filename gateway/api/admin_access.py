"""Access to `/admin/v1` and `/warmgate/explain`, by the admin keys of the settings and their roles.

Rules:

1. The key is checked before anything else of a request: its query, its body, and whether what it names exists.
2. There is no exception for callers on this machine: behind a proxy on the same machine, every caller is one.
3. A role has all rights of the ones before it in `ROLES`.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from fastapi import Depends, Request

from gateway.api.refused_logins import RefusedLogins
from gateway.protocol.errors import AdminClosed, AdminKeyRefused, Forbidden

Role = Literal["viewer", "operator", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Roles, from the one with the fewest rights."""


@dataclass(frozen=True, slots=True)
class AdminKey:
    """An admin key: *id* is in the audit log, *secret* is what callers send and is not shown."""

    id: str
    role: Role
    secret: str = field(repr=False)

    def may(self, role: Role) -> bool:
        """Return whether the key has the rights of *role*."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def require(self, role: Role, what: str = "This") -> None:
        """Check that the key has the rights of *role*.

        Raises:
            Forbidden: it has not; the message says which role *what* needs.
        """
        if not self.may(role):
            raise Forbidden(
                f"{what} needs the role {role!r}; the admin key {self.id!r} has the role {self.role!r}",
                code="role_not_sufficient",
            )


class AdminAccess:
    """Check of the admin key that a request brings. O(keys), a few microseconds."""

    def __init__(self, keys: Sequence[AdminKey]) -> None:
        # Digests are of one length: comparing them does not tell how long a secret is.
        self._keys = [(_digest(key.secret), key) for key in keys]

    def check(self, authorization: str | None, api_key: str | None) -> AdminKey:
        """Return the key in the header ``authorization``, behind ``Bearer``, or in ``x-api-key``.

        Raises:
            AdminClosed: there are no admin keys.
            AdminKeyRefused: the request has no admin key, an unknown one, or two different ones.
        """
        if not self._keys:
            raise AdminClosed("The admin API is disabled: set admin.keys to enable it")
        brought = {secret for secret in (_bearer(authorization), (api_key or "").strip()) if secret}
        if not brought:
            raise AdminKeyRefused("The request needs an admin key: authorization: Bearer <admin key>")
        if len(brought) > 1:
            raise AdminKeyRefused("The request has two different admin keys: send only one")
        given = _digest(brought.pop())
        found = None
        for digest, key in self._keys:  # to the end, so that the time it takes does not tell which one matched
            if hmac.compare_digest(given, digest):
                found = key
        if found is None:
            raise AdminKeyRefused("The admin key is unknown")
        return found


def who(request: Request) -> AdminKey:
    """Return the admin key of this request."""
    access: AdminAccess = request.app.state.admin_access
    authorization, api_key = request.headers.get("authorization"), request.headers.get("x-api-key")
    try:
        return access.check(authorization, api_key)
    except AdminKeyRefused:
        refused: RefusedLogins | None = request.app.state.refused_logins
        if refused is not None:
            refused.count_request(request, has_key=bool(authorization or api_key))
        raise


Who = Annotated[AdminKey, Depends(who)]


def needs(role: Role) -> Callable[[Request], None]:
    """Return a dependency of routes that need *role* or a higher one."""

    def check(request: Request) -> None:
        who(request).require(role)

    return check


def _bearer(authorization: str | None) -> str:
    scheme, _, secret = (authorization or "").strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
