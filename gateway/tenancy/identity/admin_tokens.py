"""Tokens of issuers in place of admin keys."""

from collections.abc import Callable

from gateway.protocol.errors import Forbidden, InvalidKey
from gateway.tenancy.identity.admin_person import AdminPerson
from gateway.tenancy.identity.provisioned import ProvisionedPeople
from gateway.tenancy.identity.role_rule import role_grant
from gateway.tenancy.identity.token_verifier import MOST_USER, TokenVerifier, VerifiedClaims
from gateway.tenancy.teams.access_records import is_revoked
from gateway.tenancy.teams.directory import Directory


class AdminTokens:
    """Implements `AdminTokenCheck`. *wall_clock* returns seconds since 1970.

    No token is remembered, so that memory is not needed and each request sees the latest keys.
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        directory: Directory,
        *,
        wall_clock: Callable[[], float],
        provisioned: ProvisionedPeople | None = None,
    ) -> None:
        """Create the check. *provisioned* is required if an issuer provisions people."""
        self._verifier = verifier
        self._directory = directory
        self._wall_clock = wall_clock
        self._provisioned = provisioned

    async def verify(self, token: str) -> AdminPerson:
        """Return the person of *token*. Takes about 100 us. Raises the errors of `AdminTokenCheck.verify`."""
        return self.person_of(await self._verifier.verify_claims(token))

    def person_of(self, claims: VerifiedClaims) -> AdminPerson:
        """Return the person of the verified *claims*. Raises the same errors as `verify`."""
        if not claims.user or len(claims.user) >= MOST_USER:  # a longer name was cut, so it could be another's
            raise InvalidKey(f"The claim {claims.issuer.user_claim!r} of the token names no user")
        grant = role_grant(claims.issuer.admin_roles, claims.values)
        if grant is None:
            text = f"The token is valid, but no rule for the issuer {claims.issuer.name!r} gives it a role"
            raise Forbidden(f"{text} (admin_roles)", code="no_role")
        person = AdminPerson(
            issuer=claims.issuer.name,
            user=claims.user,
            grant=grant,
            expires_at=claims.expires_at,
            issued_at=claims.issued_at,
            revocations=claims.revocations,
            person=claims.person,
            standing=claims.standing,
        )
        if self._is_revoked(person):
            raise InvalidKey("The token was revoked: sign in again")
        return person

    def still_holds(self, person: AdminPerson) -> bool:
        """Return whether *person* has neither been revoked nor changed by the provider. Takes a few microseconds.

        The expiry of the token does not matter here, because a session outlives the token of its login.
        """
        if self._is_revoked(person):
            return False
        if person.person is None or self._provisioned is None:
            return True
        return self._provisioned.standing(person.issuer, person.person) == person.standing

    def _is_revoked(self, person: AdminPerson) -> bool:
        return is_revoked(self._directory.access, person.revocations, person.issued_at, self._wall_clock())
