"""Callers who send a token of an issuer in place of an API key.

1. A token is verified once. Until it expires, its result is found by a digest of the whole token, because two tokens
   can be equal in all parts but one.
2. Teams are looked up again when a team or key changes, so a blocked team stops its tokens at once.
3. A revocation in the directory stops a token at once, whether the token was verified before or not.
4. The memory is bounded: at most `MOST_TOKENS` tokens are remembered, and the oldest are dropped first.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import structs

from gateway.protocol.errors import Forbidden, InvalidKey
from gateway.protocol.field_types import is_entity_name
from gateway.tenancy.identity.provisioned import ProvisionedPeople
from gateway.tenancy.identity.token_verifier import TokenVerifier, VerifiedToken
from gateway.tenancy.teams.access_records import is_revoked
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team

MOST_TOKENS: Final = 16_384
"""Maximum number of remembered tokens, each with at most about 2,000 bytes."""
KEY_PREFIX: Final = "oidc:"
"""Prefix of the key ids under which requests with tokens are recorded. No API key can have such an id."""


class IssuedTokens:
    """Implements `TokenCallers`. *create_team* stores a new team, and then the directory contains the team."""

    def __init__(
        self,
        verifier: TokenVerifier,
        directory: Directory,
        *,
        wall_clock: Callable[[], float],
        max_created_teams: int,
        create_team: Callable[[Team, str], Awaitable[None]],
        provisioned: ProvisionedPeople | None = None,
    ) -> None:
        self._verifier = verifier
        self._directory = directory
        self._wall_clock = wall_clock
        self._max_created_teams = max_created_teams
        self._create_team = create_team
        self._provisioned = provisioned
        self._tokens: dict[bytes, VerifiedToken] = {}
        self._callers: dict[tuple[str, str | None, str, int], Caller] = {}
        """Callers by issuer, end user, team and rule, so that all tokens of an end user share one object."""
        self._generation = directory.generation

    def expires_at(self, token: str) -> float:
        """Return the time at which the verified *token* expires, in seconds since 1970, or 0 if it is not verified."""
        verified = self._tokens.get(_digest(token))
        return 0.0 if verified is None else verified.expires_at

    def caller_of(self, token: str) -> Caller | None:
        """Return the caller of *token*, or None if the token must be verified first. Takes about 3 us.

        Raises:
            InvalidKey: if the token was revoked, or the team of the token is blocked.
        """
        verified = self._tokens.get(_digest(token))
        if verified is None or self._wall_clock() >= verified.expires_at:
            return None
        self._check_not_revoked(verified)
        if verified.person is not None and self._provisioned is not None:
            standing = self._provisioned.standing(verified.issuer, verified.person)
            if standing != verified.standing:  # the groups or the state of the person changed
                del self._tokens[_digest(token)]
                return None
        team = self._directory.teams.get(verified.grant.team)
        return None if team is None else self._caller(verified, team)

    async def verify(self, token: str) -> Caller:
        """Verify *token* and return its caller. Creates the team of the token if a rule says so.

        Raises:
            InvalidKey: if the token is not valid or was revoked, or its team is blocked.
            Forbidden: ``no_team`` if the token has no team, or ``team_limit`` if no more teams can be created.
            IssuerUnavailable: if the signing key is unknown, and the keys of the issuer cannot be read.
            StoreUnavailable: if the team must be created while the store is unavailable.
        """
        verified = await self._verifier.verify(token)
        self._check_not_revoked(verified)
        grant = verified.grant
        team = self._directory.teams.get(grant.team)
        if team is None:
            team = await self._created(verified)
        self._remember(_digest(token), verified)
        return self._caller(verified, team)

    def _check_not_revoked(self, verified: VerifiedToken) -> None:
        if is_revoked(self._directory.access, verified.revocations, verified.issued_at, self._wall_clock()):
            refusal = InvalidKey("The token was revoked: sign in again")
            refusal.whose = (verified.grant.team, KEY_PREFIX + verified.issuer)
            raise refusal

    def _caller(self, verified: VerifiedToken, team: Team) -> Caller:
        if self._generation != self._directory.generation:
            self._generation = self._directory.generation
            self._callers.clear()
        if team.blocked:
            refusal = InvalidKey(f"The team {team.name!r} of the token is blocked")
            refusal.whose = (team.name, KEY_PREFIX + verified.issuer)
            raise refusal
        rule = verified.grant.rule
        place = (verified.issuer, verified.user, team.name, id(rule))  # rules live as long as this object
        caller = self._callers.get(place)
        if caller is None:
            if len(self._callers) >= MOST_TOKENS:
                self._callers.clear()
            key = Key(
                id=KEY_PREFIX + verified.issuer,
                team=team.name,
                digest="",
                project=rule.project,
                models=rule.models,
                priority=rule.priority,
            )
            caller = Caller(team, self._directory.rules.applied_to(key), end_user=verified.user)
            self._callers[place] = caller
        caller.check_limits()
        return caller

    async def _created(self, verified: VerifiedToken) -> Team:
        grant = verified.grant
        template = grant.rule.template
        if template is None or not is_entity_name(grant.team):
            raise Forbidden("The token is valid, but its team does not exist", code="no_team")
        if len(self._directory.teams) >= self._max_created_teams:
            raise Forbidden("The team of the token cannot be created: there are too many teams", code="team_limit")
        await self._create_team(structs.replace(template, name=grant.team), KEY_PREFIX + verified.issuer)
        team = self._directory.teams.get(grant.team)
        if team is None:
            raise Forbidden("The token is valid, but its team does not exist", code="no_team")
        return team

    def _remember(self, digest: bytes, verified: VerifiedToken) -> None:
        if len(self._tokens) >= MOST_TOKENS and digest not in self._tokens:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[digest] = verified


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("ascii")).digest()
