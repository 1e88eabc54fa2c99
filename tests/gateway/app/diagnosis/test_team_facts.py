from gateway.api.admin_v1.gateway_facts import TeamFacts
from gateway.app.diagnosis.team_facts import team_facts
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team

MINUTE = Limits(requests_per_minute=60)


def unlimited(team: Team, *keys: Key) -> tuple[str, ...]:
    (facts,) = team_facts([team], {key.id: key for key in keys}, now=1000.0)
    assert len(keys) == facts.keys
    return facts.unlimited_keys


def test_a_key_is_unlimited_if_neither_it_nor_its_team_has_a_limit() -> None:
    keys = Key("a", "blue", "-"), Key("b", "blue", "-", limits=MINUTE)

    assert ("a",) == unlimited(Team("blue"), *keys)
    assert () == unlimited(Team("blue", limits=MINUTE), *keys)


def test_limits_of_one_model_count_and_soft_budgets_do_not() -> None:
    """A soft budget refuses nothing."""
    assert () == unlimited(Team("blue", model_limits={"tiny": MINUTE}), Key("a", "blue", "-"))
    assert ("a",) == unlimited(Team("blue", limits=Limits(soft_usd_per_day=5.0)), Key("a", "blue", "-"))


def test_keys_that_cannot_be_used_are_left_out() -> None:
    """They are blocked or expired, or their team is blocked."""
    keys = Key("a", "blue", "-", blocked=True), Key("b", "blue", "-", expires_at=999.0), Key("c", "blue", "-")

    assert ("c",) == unlimited(Team("blue"), *keys)
    assert () == unlimited(Team("blue", blocked=True), *keys)


def test_a_key_belongs_to_one_team() -> None:
    facts = team_facts([Team("blue"), Team("red")], {"a": Key("a", "red", "-")}, now=0.0)

    assert (TeamFacts(name="blue"), TeamFacts(name="red", keys=1, unlimited_keys=("a",))) == facts
