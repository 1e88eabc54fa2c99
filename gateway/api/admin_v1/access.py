"""Who may use `/admin/v1`, and what for: whoever brings one of the admin keys of the settings, as far as its role goes.

Rules:

1. The key is looked at before anything else of a request: its query, its body, and whether what it names exists.
2. There is no exception for callers on this machine: behind a proxy that stands beside the gateway everybody is one.
3. A role may all that the ones before it in `ROLES` may.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from fastapi import Depends, Request

from gateway.api.refused_logins import RefusedLogins
from gateway.errors import AdminClosed, AdminKeyRefused, Forbidden
from gateway.settings.admin import AdminSettings

Role = Literal["viewer", "operator", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From the one that may least."""


@dataclass(frozen=True, slots=True)
class AdminKey:
    """*id* stands in the audit log; *secret* is what callers send, and is not shown."""

    id: str
    role: Role
    secret: str = field(repr=False)

    def may(self, role: Role) -> bool:
        """Whether it is enough where *role* is needed."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def require(self, role: Role, what: str = "This") -> None:
        """Pass if it may do what needs *role*.

        Raises:
            Forbidden: it may not; the message says which role *what* needs.
        """
        if not self.may(role):
            raise Forbidden(
                f"{what} needs the role {role!r}; the admin key {self.id!r} has the role {self.role!r}",
                code="role_not_sufficient",
            )


def admin_keys(settings: AdminSettings) -> tuple[AdminKey, ...]:
    """The keys as *settings* have them."""
    return tuple(
        AdminKey(key.id, key.role, key.secret.get_secret_value()) for key in settings.keys if key.secret is not None
    )


class AdminAccess:
    """Tells admin keys apart by what a caller brings. O(keys), a few microseconds."""

    def __init__(self, keys: Sequence[AdminKey]) -> None:
        # Digests are of one length: comparing them does not tell how long a secret is.
        self._keys = [(_digest(key.secret), key) for key in keys]

    def check(self, authorization: str | None, api_key: str | None) -> AdminKey:
        """The key in the header ``authorization``, behind ``Bearer``, or in ``x-api-key``.

        Raises:
            AdminClosed: there are no admin keys.
            AdminKeyRefused: it is none of them, or none was brought, or two different ones.
        """
        if not self._keys:
            raise AdminClosed("The routes under /admin/v1 are closed: set admin.keys to open them")
        brought = {secret for secret in (_bearer(authorization), (api_key or "").strip()) if secret}
        if not brought:
            raise AdminKeyRefused("The request needs an admin key: authorization: Bearer <admin key>")
        if len(brought) > 1:
            raise AdminKeyRefused("The request brings two different keys")
        given = _digest(brought.pop())
        found = None
        for digest, key in self._keys:  # to the end, so that the time it takes does not tell which one matched
            if hmac.compare_digest(given, digest):
                found = key
        if found is None:
            raise AdminKeyRefused("The admin key is not known")
        return found


def who(request: Request) -> AdminKey:
    """The admin key that this request came with."""
    access: AdminAccess = request.app.state.access
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
    """A dependency of routes that only *role*, or a higher one, may use."""

    def check(request: Request) -> None:
        who(request).require(role)

    return check


def _bearer(authorization: str | None) -> str:
    scheme, _, secret = (authorization or "").strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
