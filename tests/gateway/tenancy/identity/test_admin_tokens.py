from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.protocol.errors import Forbidden, InvalidKey
from gateway.tenancy.identity.admin_tokens import AdminTokens
from gateway.tenancy.identity.issuer import Issuer, Provisioning
from gateway.tenancy.identity.provisioned import ProvisionedPeople
from gateway.tenancy.identity.role_rule import RoleGrant, RoleRule
from gateway.tenancy.identity.signing_keys import SigningKeys
from gateway.tenancy.identity.team_rule import TeamRule
from gateway.tenancy.identity.token_verifier import TokenVerifier
from gateway.tenancy.teams.access_records import (
    AccessRecord,
    ProvisionedGroup,
    ProvisionedUser,
    Revocation,
    RevokedScope,
)
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.team_store import Snapshot
from tests.gateway.tenancy.identity.signing import AUDIENCE, ISSUER, NOW, curve_key, jwk, key_set, token

ROLES = (RoleRule("groups", "owners", "owner"), RoleRule("groups", "lead-*", "viewer", "{rest}"))
SCIM_ROLES = (RoleRule("scim_groups", "owners", "owner"),)


@dataclass
class Gate:
    """Tokens of one issuer with roles, at a time that a test sets."""

    now: float = NOW
    is_provisioning: bool = False
    directory: Directory = field(default_factory=Directory)

    def __post_init__(self) -> None:
        issuer = Issuer(
            name="okta",
            url=ISSUER,
            audiences=frozenset({AUDIENCE}),
            algorithms=frozenset({"ES256"}),
            leeway_s=0.0,
            max_lifetime_s=None,
            user_claim="sub",
            rules=(TeamRule("groups", "ml-*", "{rest}"),),
            provisioning=Provisioning() if self.is_provisioning else None,
            admin_roles=SCIM_ROLES if self.is_provisioning else ROLES,
        )
        provisioned = ProvisionedPeople(self.directory, {"okta": "userName"})
        keys = SigningKeys("okta", self._read, clock=lambda: self.now, refresh_s=300, stale_s=1e9)
        verifier = TokenVerifier([(issuer, keys)], wall_clock=lambda: self.now, provisioned=provisioned)
        self.tokens = AdminTokens(verifier, self.directory, wall_clock=lambda: self.now, provisioned=provisioned)

    async def _read(self) -> bytes:
        return key_set(jwk(curve_key()))

    def records(self, *records: AccessRecord) -> None:
        access = {each.name: each for each in records}
        self.directory.apply(Snapshot(self.directory.revision + 1, {}, access=access))

    def revoke(self, scope: RevokedScope, value: str) -> None:
        self.records(Revocation("okta", scope, value, self.now, self.now + 1000.0))


async def test_a_token_with_a_role_names_its_person() -> None:
    person = await Gate().tokens.verify(token(groups=["x", "owners"]))

    assert ("okta", "alice", RoleGrant("owner")) == (person.issuer, person.user, person.grant)
    assert NOW + 300 == person.expires_at


async def test_a_token_without_a_role_is_refused_although_it_has_a_team() -> None:
    with pytest.raises(Forbidden, match="no rule for the issuer 'okta' gives it a role") as refused:
        await Gate().tokens.verify(token(groups=["ml-research"]))

    assert "no_role" == refused.value.code


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"sub": None}, "names no user"),
        ({"sub": ""}, "names no user"),
        ({"sub": ["alice", "bob"], "user": "x"}, None),
        ({"sub": "a" * 256}, "names no user"),
        ({"sub": "a\nb"}, "names no user"),
        ({"aud": "another"}, "another audience"),
        ({"exp": NOW - 1}, "expired"),
        ({"iss": "https://evil.example.com"}, "not known"),
    ],
)
async def test_a_person_must_be_known_exactly(claims: dict[str, Any], message: str | None) -> None:
    said = token(**{"groups": ["owners"], **claims})
    if message is None:
        assert "alice" == (await Gate().tokens.verify(said)).user
        return
    with pytest.raises(InvalidKey, match=message):
        await Gate().tokens.verify(said)


@pytest.mark.parametrize(
    ("scope", "value"), [("token", "j1"), ("session", "s1"), ("subject", "alice")], ids=["token", "session", "subject"]
)
async def test_a_revocation_stops_the_token_and_what_was_begun_with_it(scope: RevokedScope, value: str) -> None:
    gate, said = Gate(), token(groups=["owners"], jti="j1", sid="s1")
    person = await gate.tokens.verify(said)
    assert gate.tokens.still_holds(person)
    gate.revoke(scope, value)

    assert not gate.tokens.still_holds(person)
    with pytest.raises(InvalidKey, match="revoked"):
        await gate.tokens.verify(said)


async def test_a_session_outlives_the_token_of_its_login() -> None:
    gate = Gate()
    person = await gate.tokens.verify(token(groups=["owners"]))
    gate.now = NOW + 3000

    assert gate.tokens.still_holds(person)


async def test_provisioned_groups_give_the_role_and_their_change_ends_it() -> None:
    gate = Gate(is_provisioning=True)
    owners, alice = ProvisionedGroup("okta", "g1", "owners"), ProvisionedUser("okta", "u1", "alice", groups=("g1",))
    gate.records(owners, alice)
    person = await gate.tokens.verify(token(groups=[]))
    assert (RoleGrant("owner"), True) == (person.grant, gate.tokens.still_holds(person))

    gate.records(owners, ProvisionedUser("okta", "u1", "alice", active=False, groups=("g1",)))
    assert not gate.tokens.still_holds(person)
    with pytest.raises(InvalidKey):
        await gate.tokens.verify(token(groups=["owners"]))
