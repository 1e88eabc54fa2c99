from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.named_rules import NamedRules
from gateway.tenancy.teams.team import Team

RULES = NamedRules(
    {"standard": Limits(requests_per_minute=600, usd_per_month=100.0)}, {"chat": ("tiny", "gpt-*"), "none": ()}
)


def test_a_team_has_the_limits_of_its_template() -> None:
    team = RULES.applied_to(Team("blue", limit_template="standard"))

    assert Team("blue", limits=Limits(requests_per_minute=600, usd_per_month=100.0)) == team


def test_limits_of_a_key_itself_take_precedence_over_those_of_its_template() -> None:
    """They can be higher or lower."""
    key = Key("ci", "blue", "d", limits=Limits(requests_per_minute=9000, concurrent=3), limit_template="standard")

    assert Limits(requests_per_minute=9000, concurrent=3, usd_per_month=100.0) == RULES.applied_to(key).limits


def test_a_template_that_does_not_exist_stays_named() -> None:
    """Limits that are not known are not taken for no limits."""
    team = Team("blue", limits=Limits(concurrent=3), limit_template="gold")

    assert team == RULES.applied_to(team)


def test_a_group_stands_for_its_models() -> None:
    assert ("big", "tiny", "gpt-*") == RULES.applied_to(Team("blue", models=("big", "group:chat"))).models


def test_a_group_that_does_not_exist_allows_no_model() -> None:
    assert () == RULES.applied_to(Team("blue", models=("group:code", "group:none"))).models


def test_the_name_of_a_group_alone_is_a_model() -> None:
    """A model can have the name of a group."""
    assert ("chat",) == RULES.applied_to(Team("blue", models=("chat",))).models


def test_what_names_nothing_stays_the_same_object() -> None:
    team = Team("blue", models=("tiny",), limits=Limits(concurrent=3))

    assert RULES.applied_to(team) is team
    assert RULES.applied_to(Team("red")).models is None


def test_groups_that_do_not_exist_are_reported() -> None:
    assert ["code"] == RULES.unknown_groups(("tiny", "group:chat", "group:code"))
    assert [] == RULES.unknown_groups(None)
