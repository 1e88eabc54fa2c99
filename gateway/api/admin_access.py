"""Access control for `/admin/v1` and `/warmgate/explain`, based on admin keys and tokens, and on their roles.

Rules:

1. The key is checked before the query, the body and the existence of the requested object.
2. Local callers need a key too, because requests through a proxy on the same machine also appear to be local.
3. A role has all permissions of the roles before it in `ROLES`.
4. A key with a team can use only the routes in `TEAM_PATHS`, which limit themselves to the team. It is allowed to read
   there, whatever its role is. An owner of a team is also allowed to create, rotate and delete API keys of the team.
5. A token of an issuer whose rules give the token a role (`admin_roles`) counts as an admin key with this role.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, get_args

from fastapi import Depends, Request

from gateway.api.refused_logins import RefusedLogins
from gateway.protocol.errors import AdminClosed, AdminKeyRefused, Forbidden, InvalidKey
from gateway.tenancy.identity.admin_person import AdminPerson, AdminTokenCheck
from gateway.tenancy.identity.role_rule import AdminRole

Role = AdminRole
ROLES: tuple[Role, ...] = get_args(Role)
"""Admin roles, in order of increasing permissions."""

SCOPE_KEY: Final = "warmgate.admin_key"
"""Key of the ASGI scope with the `AdminKey` of a request that a part of this process sends, such as the console.

Requests from outside cannot set keys of the scope.
"""


@dataclass(frozen=True, slots=True)
class AdminKey:
    """Admin key from the settings, or a person whose token has a role.

    The audit log shows *id*. Callers send *secret*, which is never shown: the secret of the key, or the token of a
    person. In the console, a person has a random secret instead. If a request is repeated, secrets of API keys are
    derived from *secret*, so it is never empty.
    """

    id: str
    role: Role
    secret: str = field(repr=False)
    team: str | None = None
    """Team to which the key is limited, or None. Such a key is a viewer, or an owner, who manages the team's keys."""
    is_person: bool = field(default=False, repr=False)
    """Whether the secret is not that of a configured admin key."""

    def may(self, role: Role) -> bool:
        """Return whether the admin key has the permissions of *role* for all teams. With a team, it can only read."""
        own: Role = self.role if self.team is None else "viewer"
        return ROLES.index(own) >= ROLES.index(role)

    def may_manage_keys(self, team: str) -> bool:
        """Return whether the admin key is allowed to create, rotate and delete API keys of *team*."""
        return self.role == "owner" and self.sees(team)

    def require(self, role: Role, what: str = "This") -> None:
        """Raise an error unless the admin key has the permissions of *role*.

        Raises:
            Forbidden: if the key lacks the role. The message says which role *what* needs.
        """
        if not self.may(role):
            if self.team is not None and self.role == "owner":
                text = f"{what} is not allowed: the admin key {self.id!r} only manages the API keys of {self.team!r}"
                raise Forbidden(text, code="limited_to_team")
            raise Forbidden(
                f"{what} needs the role {role!r}; the admin key {self.id!r} has the role {self.role!r}",
                code="role_not_sufficient",
            )

    def sees(self, team: str | None) -> bool:
        """Return whether the admin key can read the data of *team*."""
        return self.team is None or self.team == team

    def team_within(self, asked: str | None) -> str | None:
        """Return the team to which a list is limited, if the request asks for the team *asked*, or for all with None.

        Raises:
            Forbidden: if the request asks for a team that the admin key cannot read.
        """
        if asked is not None and not self.sees(asked):
            raise Forbidden(f"The admin key {self.id!r} is limited to the team {self.team!r}", code="other_team")
        return self.team or asked


TEAM_PATHS: Final = frozenset(
    {
        *("/admin/v1/teams", "/admin/v1/teams/{name}", "/admin/v1/teams/{name}/limits"),
        *("/admin/v1/keys", "/admin/v1/keys/{key_id}"),
        *("/admin/v1/usage", "/admin/v1/usage/users", "/admin/v1/usage/records", "/admin/v1/usage/export"),
        *("/admin/v1/requests", "/admin/v1/requests/{request_id}", "/admin/v1/savings"),
        *("/admin/v1/batches", "/admin/v1/batches/{batch_id}"),
    }
)
"""Paths of the routes that show an admin key with a team only the data of that team.

All other routes reject such keys, so that a new route shows them nothing by mistake.
"""


OWNER_PATHS: Final = frozenset({"/admin/v1/keys/{key_id}/rotate"})
"""Further paths that an owner of a team can use."""


class AdminAccess:
    """Check of a request's admin key. O(keys), which takes a few microseconds. *tokens* checks tokens of issuers."""

    def __init__(self, keys: Sequence[AdminKey], tokens: AdminTokenCheck | None = None) -> None:
        # Digests are of one length: comparing them does not tell how long a secret is.
        self._keys = [(_digest(key.secret), key) for key in keys]
        self._tokens = tokens

    async def identify(self, authorization: str | None, api_key: str | None) -> AdminKey:
        """Return the admin key or the person from the same headers as `check`. Takes about 100 us for a token.

        Raises:
            AdminClosed: if no admin keys are configured.
            AdminKeyRefused: if the request has no admin key, two different ones, or one that is not valid.
            Forbidden: if the token is valid but gives no role.
            IssuerUnavailable: if the keys of the token's issuer cannot be read.
        """
        token = _bearer(authorization)
        if not self._keys or self._tokens is None or (api_key or "").strip() or not _is_token(token):
            return self.check(authorization, api_key)
        try:
            person = await self._tokens.verify(token)
        except InvalidKey as fault:
            raise AdminKeyRefused(fault.cause) from None
        return key_of_person(person, token)

    def check(self, authorization: str | None, api_key: str | None) -> AdminKey:
        """Return the admin key from the header ``authorization: Bearer`` or ``x-api-key``.

        Raises:
            AdminClosed: if no admin keys are configured.
            AdminKeyRefused: if the request has no admin key, an unknown one, or two different ones.
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


def key_of_person(person: AdminPerson, secret: str) -> AdminKey:
    """Return *person* as the holder of an admin key with *secret*, which must not be guessable, and opens nothing."""
    name = f"oidc:{person.issuer}:{person.user}"
    return AdminKey(name, person.grant.role, secret, person.grant.team, is_person=True)


async def who(request: Request) -> AdminKey:
    """Return the admin key or the person that authenticated the request."""
    key: AdminKey | None = request.scope.get(SCOPE_KEY)
    if key is None:
        key = request.scope[SCOPE_KEY] = await _identified(request)
    path = getattr(request.scope.get("route"), "path", None)
    if key.team is not None and path not in (TEAM_PATHS | OWNER_PATHS if key.role == "owner" else TEAM_PATHS):
        text = f"The admin key {key.id!r} is limited to the team {key.team!r}, so it cannot use this route"
        raise Forbidden(text, code="limited_to_team")
    return key


async def _identified(request: Request) -> AdminKey:
    access: AdminAccess = request.app.state.admin_access
    authorization, api_key = request.headers.get("authorization"), request.headers.get("x-api-key")
    try:
        return await access.identify(authorization, api_key)
    except AdminKeyRefused:
        refused: RefusedLogins | None = request.app.state.refused_logins
        if refused is not None:
            refused.count_request(request, "wrong key" if authorization or api_key else "no key")
        raise


Who = Annotated[AdminKey, Depends(who)]


def needs(role: Role) -> Callable[[Request], Awaitable[None]]:
    """Return a FastAPI dependency that requires the admin role *role* or a higher role."""

    async def check(request: Request) -> None:
        (await who(request)).require(role)

    return check


async def manages_keys(request: Request) -> None:
    """FastAPI dependency that requires an owner, of all teams or of one. The route checks the team."""
    key = await who(request)
    if key.team is None or key.role != "owner":
        key.require("owner")


def _bearer(authorization: str | None) -> str:
    scheme, _, secret = (authorization or "").strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _is_token(secret: str) -> bool:
    """Return whether *secret* has the form of a signed JSON Web Token, whose first part is a JSON object."""
    return secret.startswith("eyJ") and secret.count(".") == 2


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
