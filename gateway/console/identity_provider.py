"""Protocol between the console and an identity provider (OpenID Connect) with which people log in."""

from dataclasses import dataclass, field
from typing import Protocol

from gateway.tenancy.identity.admin_person import AdminPerson


class ProviderUnavailable(Exception):
    """Raised if the provider cannot be reached or answers with an error of its own. The text contains no secrets."""


class LoginFailed(Exception):
    """Raised if a login was not completed at the provider, or its token is not accepted. The text is a sentence."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """Secrets of one login with PKCE (RFC 7636), each with at least 256 bits."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


class IdentityProvider(Protocol):
    """Provider with which people log in by the authorization code grant. Its errors are `ProviderUnavailable`."""

    @property
    def name(self) -> str:
        """Name of the issuer in the settings."""
        ...

    async def authorization_url(self, attempt: LoginAttempt) -> str:
        """Return the address at the provider to which the browser goes."""
        ...

    async def exchange(self, code: str, issuer: str | None, attempt: LoginAttempt) -> "SignedIn":
        """Exchange *code* for the person who signed in. *issuer* is the parameter ``iss`` of the redirect (RFC 9207).

        Raises:
            LoginFailed: if the provider does not accept *code*, or the gateway does not accept the ID token.
        """
        ...

    async def logout_url(self, signed_in: "SignedIn") -> str | None:
        """Return the address that ends the session at the provider, or None if the provider has no such address."""
        ...

    def still_holds(self, person: AdminPerson) -> bool:
        """Return whether *person* has neither been revoked nor changed by the provider."""
        ...


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Person of a session that began at a provider."""

    provider: IdentityProvider
    person: AdminPerson
    id_token: str | None = field(default=None, repr=False)
    """ID token that names the session at logout, or None if it is too long for an address."""

    def still_holds(self) -> bool:
        """Return whether the person has neither been revoked nor changed by the provider."""
        return self.provider.still_holds(self.person)
