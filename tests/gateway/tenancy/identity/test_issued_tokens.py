import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from msgspec import structs

from gateway.protocol.errors import Forbidden, InvalidKey
from gateway.tenancy.identity import issued_tokens
from gateway.tenancy.identity.issued_tokens import IssuedTokens
from gateway.tenancy.identity.issuer import Issuer, Provisioning
from gateway.tenancy.identity.provisioned import ProvisionedPeople
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
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.named_rules import NamedRules
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import Snapshot
from tests.gateway.tenancy.identity.signing import AUDIENCE, ISSUER, NOW, curve_key, jwk, key_set, token

RESEARCH = Team("research")
RULES = (
    TeamRule("groups", "admins", "research", project="ops", models=("tiny",), priority="high"),
    TeamRule("groups", "ml-*", "{rest}"),
    TeamRule("groups", "new-*", "{rest}", template=Team("", weight=2.0, limits=Limits(requests_per_minute=7))),
)

SCIM_RULES = (TeamRule("scim_groups", "research", "research"), TeamRule("scim_groups", "b-*", "{rest}"))
GROUPS = (ProvisionedGroup("okta", "g1", "research"), ProvisionedGroup("okta", "g2", "b-other"))
ALICE = ProvisionedUser("okta", "u1", "alice", groups=("g1",))


@dataclass
class Gate:
    """Tokens of one issuer before a directory with the team research, at a time that a test sets."""

    now: float = NOW
    reads: int = 0
    max_teams: int = 3
    directory: Directory = field(default_factory=Directory)
    created: list[tuple[str, str]] = field(default_factory=list)
    stores: bool = True
    is_provisioning: bool = False
    models: tuple[str, ...] = ("tiny",)
    """Models of the rule for admins."""

    def __post_init__(self) -> None:
        self.directory.apply(Snapshot(1, {"research": RESEARCH}))
        issuer = Issuer("okta", ISSUER, frozenset({AUDIENCE}), frozenset({"ES256"}), 0.0, None, "sub", RULES)
        issuer = replace(issuer, rules=(replace(RULES[0], models=self.models), *RULES[1:]))
        if self.is_provisioning:
            issuer = replace(issuer, rules=SCIM_RULES, provisioning=Provisioning())
        provisioned = ProvisionedPeople(self.directory, {"okta": "userName"})
        keys = SigningKeys("okta", self._read, clock=lambda: self.now, refresh_s=300, stale_s=1e9)
        self.tokens = IssuedTokens(
            TokenVerifier([(issuer, keys)], wall_clock=lambda: self.now, provisioned=provisioned),
            self.directory,
            wall_clock=lambda: self.now,
            max_created_teams=self.max_teams,
            create_team=self._create,
            provisioned=provisioned,
        )

    async def _read(self) -> bytes:
        self.reads += 1
        return key_set(jwk(curve_key()))

    async def _create(self, team: Team, author: str) -> None:
        self.created.append((team.name, author))
        if self.stores:
            self.change(team)

    def provision(self, *records: AccessRecord) -> None:
        revision = self.directory.revision
        access = {each.name: each for each in records}
        self.directory.apply(Snapshot(revision + 1, self.directory.teams, access=access))

    def revoke(self, scope: RevokedScope, value: str, *, issuer: str = "okta", keep_s: float = 1000.0) -> None:
        made = Revocation(issuer, scope, value, self.now, self.now + keep_s)
        revision = self.directory.revision
        self.directory.apply(Snapshot(revision + 1, self.directory.teams, access={made.name: made}))

    def change(self, *teams: Team) -> None:
        revision = self.directory.revision
        self.directory.apply(Snapshot(revision + 1, {**self.directory.teams, **{team.name: team for team in teams}}))


async def test_a_verified_token_is_known_until_it_expires() -> None:
    gate, said = Gate(), token()
    assert gate.tokens.caller_of(said) is None
    caller = await gate.tokens.verify(said)

    assert gate.tokens.caller_of(said) is caller
    assert ("research", "oidc:okta", "alice") == (caller.team_name, caller.key_id, caller.end_user)
    assert NOW + 300 == gate.tokens.expires_at(said)
    gate.now = NOW + 300
    assert gate.tokens.caller_of(said) is None


async def test_tokens_that_share_all_but_one_character_are_different() -> None:
    gate, said = Gate(), token()
    await gate.tokens.verify(said)

    assert 0.0 == gate.tokens.expires_at(said[:-1])
    assert gate.tokens.caller_of(said[:-1]) is None


async def test_the_tokens_of_an_end_user_share_one_caller() -> None:
    gate = Gate()
    first = await gate.tokens.verify(token())
    second = await gate.tokens.verify(token(exp=NOW + 600))
    other = await gate.tokens.verify(token(sub="bob"))

    assert first is second
    assert first is not other


async def test_a_rule_restricts_what_its_tokens_may_do() -> None:
    caller = await Gate().tokens.verify(token(groups=["admins", "ml-research"]))

    assert ("ops", "high", ("tiny",)) == (caller.project, caller.priority, caller.key.models)


async def test_a_blocked_team_stops_its_tokens_at_once() -> None:
    gate, said = Gate(), token()
    await gate.tokens.verify(said)
    gate.change(structs.replace(RESEARCH, blocked=True))

    with pytest.raises(InvalidKey, match="The team 'research' of the token is blocked") as refused:
        gate.tokens.caller_of(said)
    assert ("research", "oidc:okta") == refused.value.whose
    gate.change(RESEARCH)
    assert gate.tokens.caller_of(said) is not None


async def test_a_changed_team_applies_to_known_tokens() -> None:
    gate, said = Gate(), token()
    await gate.tokens.verify(said)
    gate.change(structs.replace(RESEARCH, weight=5.0))

    caller = gate.tokens.caller_of(said)
    assert caller is not None
    assert 5.0 == caller.weight


async def test_a_token_of_a_missing_team_is_refused() -> None:
    gate = Gate()
    with pytest.raises(Forbidden, match="its team does not exist") as refused:
        await gate.tokens.verify(token(groups=["ml-absent"]))

    assert "no_team" == refused.value.code
    assert gate.tokens.caller_of(token(groups=["ml-absent"])) is None


async def test_a_rule_with_a_template_creates_the_team() -> None:
    gate = Gate()
    caller = await gate.tokens.verify(token(groups=["new-blue"]))
    again = await gate.tokens.verify(token(groups=["new-blue"], sub="bob"))

    assert [("blue", "oidc:okta")] == gate.created
    assert ("blue", 2.0, 7) == (caller.team_name, caller.weight, caller.team.limits.requests_per_minute)
    assert caller.team == again.team


@pytest.mark.parametrize("group", ["new-", "new-a b", "new-../x", "new-" + "x" * 64, "new-{rest}", "new-null"])
async def test_a_team_is_not_created_with_a_name_that_no_team_can_have(group: str) -> None:
    gate = Gate()
    with pytest.raises(Forbidden, match="its team does not exist"):
        await gate.tokens.verify(token(groups=[group]))

    assert [] == gate.created


async def test_no_more_teams_are_created_than_allowed() -> None:
    gate = Gate()
    await gate.tokens.verify(token(groups=["new-a"]))
    await gate.tokens.verify(token(groups=["new-b"]))
    with pytest.raises(Forbidden, match="there are too many teams") as refused:
        await gate.tokens.verify(token(groups=["new-c"]))

    assert "team_limit" == refused.value.code
    assert ["a", "b"] == [name for name, _ in gate.created]


async def test_a_team_that_was_not_stored_gives_no_access() -> None:
    with pytest.raises(Forbidden, match="its team does not exist"):
        await Gate(stores=False).tokens.verify(token(groups=["new-blue"]))


async def test_the_oldest_tokens_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issued_tokens, "MOST_TOKENS", 3)
    gate = Gate()
    said = [token(sub=f"user-{number}") for number in range(5)]
    await asyncio.gather(*map(gate.tokens.verify, said))

    assert [True, True, False, False, False] == [gate.tokens.caller_of(each) is None for each in said]


async def test_a_forged_token_is_not_remembered() -> None:
    gate = Gate()
    claims: dict[str, Any] = {"aud": "another"}
    for _ in range(2):
        with pytest.raises(InvalidKey):
            await gate.tokens.verify(token(**claims))

    assert 0.0 == gate.tokens.expires_at(token(**claims))


CLAIMED: dict[str, Any] = {"jti": "token-1", "sid": "session-1", "sub": "alice"}


@pytest.mark.parametrize(("scope", "value"), [("token", "token-1"), ("session", "session-1"), ("subject", "alice")])
async def test_a_revoked_token_is_refused_at_once_whether_it_was_verified_or_not(
    scope: RevokedScope, value: str
) -> None:
    gate, known, unknown = Gate(), token(**CLAIMED), token(**CLAIMED, groups=["ml-research", "x"])
    await gate.tokens.verify(known)
    gate.revoke(scope, value)

    with pytest.raises(InvalidKey, match="The token was revoked: sign in again") as refused:
        gate.tokens.caller_of(known)
    assert ("research", "oidc:okta") == refused.value.whose
    for each in (known, unknown):
        with pytest.raises(InvalidKey, match="The token was revoked"):
            await gate.tokens.verify(each)


@pytest.mark.parametrize(
    ("scope", "value", "issuer"),
    [
        ("token", "session-1", "okta"),
        ("session", "token-1", "okta"),
        ("token", "token-1", "entra"),
        ("subject", "bob", "okta"),
        ("session", "session-2", "okta"),
    ],
)
async def test_a_revocation_of_something_else_changes_nothing(scope: RevokedScope, value: str, issuer: str) -> None:
    gate, said = Gate(), token(**CLAIMED)
    caller = await gate.tokens.verify(said)
    gate.revoke(scope, value, issuer=issuer)

    assert "alice" == caller.end_user
    assert gate.tokens.caller_of(said) is not None
    assert await gate.tokens.verify(said) is not None


async def test_after_a_revocation_of_a_person_new_tokens_are_accepted() -> None:
    gate = Gate()
    gate.revoke("subject", "alice")
    gate.now += 20

    assert "alice" == (await gate.tokens.verify(token(iat=NOW + 1))).end_user
    with pytest.raises(InvalidKey, match="The token was revoked"):
        await gate.tokens.verify(token(iat=NOW))
    with pytest.raises(InvalidKey, match="The token was revoked"):
        await gate.tokens.verify(token(iat=None))


async def test_a_revocation_ends() -> None:
    gate, said = Gate(), token(**CLAIMED)
    gate.revoke("token", "token-1", keep_s=60.0)
    gate.now += 60

    assert "alice" == (await gate.tokens.verify(said)).end_user


async def test_a_revoked_token_creates_no_team() -> None:
    gate = Gate()
    gate.revoke("subject", "alice")
    with pytest.raises(InvalidKey):
        await gate.tokens.verify(token(groups=["new-team"]))

    assert [] == gate.created


async def test_the_groups_of_a_provisioned_person_give_the_team() -> None:
    gate, said = Gate(is_provisioning=True), token(scim_groups=["b-forged"])
    gate.change(Team("other"))
    gate.provision(*GROUPS, ALICE)
    caller = await gate.tokens.verify(said)
    gate.provision(*GROUPS, structs.replace(ALICE, groups=("g2",)))

    assert "research" == caller.team_name
    assert gate.tokens.caller_of(said) is None
    assert "other" == (await gate.tokens.verify(said)).team_name
    assert gate.tokens.caller_of(said) is not None


async def test_a_deactivated_or_deleted_person_is_refused_at_once() -> None:
    gate, said = Gate(is_provisioning=True), token()
    gate.provision(*GROUPS, ALICE)
    await gate.tokens.verify(said)
    gate.provision(*GROUPS, structs.replace(ALICE, active=False))
    assert gate.tokens.caller_of(said) is None
    with pytest.raises(InvalidKey, match="The user of the token is deactivated"):
        await gate.tokens.verify(said)
    gate.provision(*GROUPS)
    with pytest.raises(Forbidden, match="is not provisioned") as refused:
        await gate.tokens.verify(said)
    gate.provision(*GROUPS, ALICE)

    assert "user_not_provisioned" == refused.value.code
    assert "research" == (await gate.tokens.verify(said)).team_name


async def test_a_provisioned_person_without_a_group_has_no_team() -> None:
    gate = Gate(is_provisioning=True)
    gate.provision(*GROUPS, structs.replace(ALICE, groups=()))
    with pytest.raises(Forbidden) as refused:
        await gate.tokens.verify(token(scim_groups=["research"]))

    assert "no_team" == refused.value.code


async def test_a_change_of_other_people_does_not_verify_a_token_again() -> None:
    gate, said = Gate(is_provisioning=True), token()
    gate.provision(*GROUPS, ALICE)
    await gate.tokens.verify(said)
    gate.provision(*GROUPS, ALICE, ProvisionedUser("okta", "u2", "bob"))

    assert gate.tokens.caller_of(said) is not None


async def test_the_team_of_a_token_has_the_limits_of_its_template() -> None:
    gate = Gate()
    gate.directory.declare(Declared(rules=NamedRules({"standard": Limits(concurrent=7)})))
    gate.change(structs.replace(RESEARCH, limit_template="standard"))
    caller = await gate.tokens.verify(token())

    assert 7 == caller.team.limits.concurrent


async def test_a_token_whose_team_has_a_missing_limit_template_is_refused() -> None:
    gate, said = Gate(), token()
    await gate.tokens.verify(said)
    gate.change(structs.replace(RESEARCH, limit_template="gold"))

    with pytest.raises(Forbidden) as refused:
        gate.tokens.caller_of(said)

    assert "limit_template_missing" == refused.value.code


async def test_a_rule_can_name_a_model_group() -> None:
    gate = Gate(models=("group:chat",))
    gate.directory.declare(Declared(rules=NamedRules(groups={"chat": ("tiny",)})))
    caller = await gate.tokens.verify(token(groups=["admins"]))

    assert (True, False) == (caller.permits.may_use("tiny", "tiny"), caller.permits.may_use("big", "big"))
