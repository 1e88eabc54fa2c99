"""Interface to callers who send a token of an identity provider in place of an API key."""

from typing import Protocol

from gateway.tenancy.teams.caller import Caller

_BEGIN = "eyJ"
"""First characters of each JSON object that begins with ``{"``, in base64."""


def is_token(secret: str) -> bool:
    """Return whether *secret* has the form of a signed JSON Web Token: three parts, of which the first is an object."""
    return secret.startswith(_BEGIN) and secret.count(".") == 2


class TokenCallers(Protocol):
    def expires_at(self, token: str) -> float:
        """Return the time at which the verified *token* expires, in seconds since 1970, or 0 if it is not verified."""
        ...

    def caller_of(self, token: str) -> Caller | None:
        """Return the caller of *token*, or None if the token must be verified first.

        Raises:
            InvalidKey: if the team of the token is blocked.
        """
        ...

    async def verify(self, token: str) -> Caller:
        """Verify *token* and return its caller.

        Raises:
            InvalidKey: if the token is not valid.
            Forbidden: if the token is valid, but gives no access to a team.
            IssuerUnavailable: if the issuer is needed for the verification and cannot be reached.
            StoreUnavailable: if the team of the token must be created while the store is unavailable.
        """
        ...
