"""Who may use the routes under `/warmgate`: whoever knows the admin token, and nobody where none is set.

There is no exception for callers on this machine: behind a proxy that stands beside the gateway everybody is one.
"""

import hmac

from fastapi import Request

from gateway.api.refused_logins import RefusedLogins
from gateway.errors import AdminClosed, AdminRefused


class AdminAccess:
    """Compares what callers bring with *token*."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def check(self, authorization: str) -> None:
        """Pass whoever sends ``Bearer`` and the token.

        Raises:
            AdminClosed: there is no token.
            AdminRefused: it is another one, or none.
        """
        if self._token is None:
            raise AdminClosed("The routes under /warmgate are closed: set server.admin_token to open them")
        scheme, _, given = authorization.partition(" ")
        # In constant time: how long a comparison takes must not tell how much of a guess was right.
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token.encode()):
            raise AdminRefused("This route needs the admin token: authorization: Bearer <server.admin_token>")


def require_admin(request: Request) -> None:
    """A dependency of every route under `/warmgate`."""
    access: AdminAccess = request.app.state.admin_access
    authorization = request.headers.get("authorization", "")
    try:
        access.check(authorization)
    except AdminRefused:
        refused: RefusedLogins | None = getattr(request.app.state, "refused_logins", None)
        if refused is not None:
            refused.count_request(request, has_key=bool(authorization))
        raise
