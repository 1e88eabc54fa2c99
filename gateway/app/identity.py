"""Assembly of the objects that identify callers by tokens. The module is imported only if an issuer is configured."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from gateway.app.identity_rules import IdentityRules
from gateway.app.key_sets import KeySetReader
from gateway.app.openid_provider import OpenIdProvider
from gateway.tenancy.identity.admin_tokens import AdminTokens
from gateway.tenancy.identity.issued_tokens import IssuedTokens
from gateway.tenancy.identity.issuer import Issuer
from gateway.tenancy.identity.provisioned import ProvisionedPeople
from gateway.tenancy.identity.signing_keys import SigningKeys
from gateway.tenancy.identity.token_verifier import TokenVerifier
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.team import Team


class TokenAccess:
    """Callers with tokens, and the loops that read the keys of their issuers."""

    def __init__(
        self,
        rules: IdentityRules,
        directory: Directory,
        *,
        create_team: Callable[[Team, str], Awaitable[None]],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        """Create the object. *create_team* stores a new team on behalf of the issuer that its second argument names."""
        issuers = [
            (
                issuer,
                SigningKeys(
                    issuer.name, KeySetReader(source), clock=clock, refresh_s=source.refresh_s, stale_s=source.stale_s
                ),
            )
            for issuer, source in rules.issuers
        ]
        self._rules = rules
        self._wall_clock = wall_clock
        self._keys = {issuer.name: keys for issuer, keys in issuers}
        attributes = {
            issuer.name: issuer.provisioning.attribute for issuer, _ in rules.issuers if issuer.provisioning is not None
        }
        provisioned = self._provisioned = ProvisionedPeople(directory, attributes)
        verifier = TokenVerifier(issuers, wall_clock=wall_clock, provisioned=provisioned)
        self.admin: AdminTokens | None = None
        """Check of tokens with a role in the administration, or None if no issuer gives roles."""
        if any(issuer.admin_roles for issuer, _ in issuers):
            self.admin = AdminTokens(verifier, directory, wall_clock=wall_clock, provisioned=provisioned)
        self.tokens = IssuedTokens(
            verifier,
            directory,
            wall_clock=wall_clock,
            max_created_teams=rules.max_teams,
            create_team=create_team,
            provisioned=provisioned,
        )

    def providers(self, clock: Callable[[], float]) -> list[OpenIdProvider]:
        """Return the issuers with which people log in to the console. *clock* returns monotonic seconds."""
        return [
            OpenIdProvider(
                issuer.name,
                source,
                login,
                verifier=self._verifier_of(issuer, login.client_id),
                tokens=self.admin,
                clock=clock,
            )
            for issuer, source in self._rules.issuers
            if (login := self._rules.logins.get(issuer.name)) is not None and self.admin is not None
        ]

    def _verifier_of(self, issuer: Issuer, client_id: str) -> TokenVerifier:
        """Return the verifier of the ID tokens that *issuer* issues for *client_id*."""
        for_client = replace(issuer, audiences=frozenset({client_id}), max_lifetime_s=None)
        keys = self._keys[issuer.name]
        return TokenVerifier([(for_client, keys)], wall_clock=self._wall_clock, provisioned=self._provisioned)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the background loops to run until canceled."""
        return [keys.run() for keys in self._keys.values()]
