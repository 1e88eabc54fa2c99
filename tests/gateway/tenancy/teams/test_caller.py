import pytest

from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team


def test_a_key_is_as_its_team_where_it_says_nothing() -> None:
    caller = Caller(Team("blue", weight=3.0, priority="low", fallback=False), Key("ci", "blue", "d"))

    assert (3.0, "low", False) == (caller.weight, caller.priority, caller.may_fall_back)
    assert caller.networks is None


def test_a_key_is_as_it_says() -> None:
    key = Key("ci", "blue", "d", weight=0.5, priority="high", fallback=True)
    caller = Caller(Team("blue", weight=3.0, priority="low", fallback=False), key)

    assert (0.5, "high", True) == (caller.weight, caller.priority, caller.may_fall_back)


@pytest.mark.parametrize(
    ("team", "key"),
    [
        (Team("blue", blocked=True), Key("ci", "blue", "d")),
        (Team("blue"), Key("ci", "blue", "d", blocked=True)),
        (Team("blue"), Key("ci", "blue", "d", expires_at=5.0)),
        (Team("blue"), Key("ci", "blue", "d", networks=())),
    ],
)
def test_a_key_is_not_plain_where_more_is_asked_of_it_than_its_secret(team: Team, key: Key) -> None:
    assert not Caller(team, key).is_plain
    assert Caller(Team("blue"), Key("ci", "blue", "d")).is_plain


def test_callers_are_the_same_or_different() -> None:
    """What is worked out for one is never taken for the other's."""
    one, other = (Caller(Team("blue"), Key("ci", "blue", "d", model_limits={})) for _ in range(2))
    kept = {one: 1, other: 2}

    assert one != other
    assert 1 == kept[one]


def test_a_caller_shows_no_digest() -> None:
    assert "Caller(team='blue', key='ci')" == repr(Caller(Team("blue"), Key("ci", "blue", "d" * 64)))
