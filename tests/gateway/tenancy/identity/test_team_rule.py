import pytest

from gateway.tenancy.identity.team_rule import TeamRule, team_grant

RULES = [
    TeamRule("groups", "admins", "platform", project="ops"),
    TeamRule("groups", "llm-*", "team-{rest}"),
    TeamRule("department", "*", "{value}"),
]


@pytest.mark.parametrize(
    ("claims", "team", "rule"),
    [
        ({"groups": ["llm-blue", "admins"]}, "platform", 0),
        ({"groups": ["x", "llm-blue", "llm-red"]}, "team-blue", 1),
        ({"groups": "llm-blue"}, "team-blue", 1),
        ({"groups": ["llm-"]}, "team-", 1),
        ({"department": "Sales"}, "Sales", 2),
        ({"groups": ["Admins"], "department": "x"}, "x", 2),
    ],
)
def test_the_first_rule_that_matches_gives_the_team(claims: dict[str, object], team: str, rule: int) -> None:
    grant = team_grant(RULES, claims)

    assert grant is not None
    assert RULES[rule] is grant.rule
    assert team == grant.team


@pytest.mark.parametrize("claims", [{}, {"groups": []}, {"groups": ["llm"]}, {"department": 7}, {"groups": None}])
def test_without_a_matching_rule_there_is_no_team(claims: dict[str, object]) -> None:
    assert team_grant(RULES, claims) is None
