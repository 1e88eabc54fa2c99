from typing import Any

import pytest

from gateway.tenancy.identity.role_rule import RoleGrant, RoleRule, role_grant

RULES = [
    RoleRule("groups", "gateway-owners", "owner"),
    RoleRule("groups", "gateway-operators", "operator"),
    RoleRule("groups", "lead-*", "viewer", "{rest}"),
    RoleRule("realm.roles", "audit*", "viewer"),
]


@pytest.mark.parametrize(
    ("claims", "grant"),
    [
        ({"groups": ["x", "gateway-owners"]}, RoleGrant("owner")),
        ({"groups": "gateway-operators"}, RoleGrant("operator")),
        ({"groups": ["gateway-operators", "gateway-owners"]}, RoleGrant("owner")),
        ({"groups": ["lead-blue", "lead-red"]}, RoleGrant("viewer", "blue")),
        ({"groups": ["lead-blue"], "realm": {"roles": ["auditor"]}}, RoleGrant("viewer", "blue")),
        ({"realm": {"roles": ["auditor"]}}, RoleGrant("viewer")),
    ],
)
def test_the_first_rule_that_matches_gives_the_role(claims: dict[str, Any], grant: RoleGrant) -> None:
    assert grant == role_grant(RULES, claims)


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"groups": []},
        {"groups": ["Gateway-Owners"]},
        {"groups": ["gateway-owners "]},
        {"groups": {"gateway-owners": True}},
        {"groups": [["gateway-owners"]]},
        {"group": ["gateway-owners"]},
        {"role": "owner", "roles": ["owner"], "admin": True},
        {"realm": ["roles"]},
    ],
)
def test_other_claims_give_no_role(claims: dict[str, Any]) -> None:
    assert role_grant(RULES, claims) is None


@pytest.mark.parametrize("group", ["lead-", "lead-a b", "lead-../x", "lead-{value}", "lead-" + "x" * 300])
def test_a_role_for_a_team_never_becomes_a_role_for_all_teams(group: str) -> None:
    assert role_grant(RULES, {"groups": [group]}) is None
