"""Facts about what people who manage the keys of one team can grant."""

import pytest

from gateway.tenancy.teams.delegation import field_beyond_team
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team

BLUE = Team(
    "blue",
    weight=2.0,
    models=("llama-*", "tiny"),
    strategies=("kv_aware",),
    fallback=False,
    limits=Limits(tokens_per_minute=100, concurrent=3),
    model_limits={"tiny": Limits(usd_per_day=1.0)},
)


def key(**fields: object) -> Key:
    return Key(id="k", team="blue", digest="", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "granted",
    [
        key(),
        key(priority="normal", weight=2.0, fallback=False),
        key(priority="low", weight=0.5),
        key(models=("tiny", "llama-7b", "llama-7*", "llama-*"), strategies=("kv_aware",)),
        key(models=(), strategies=()),
        key(limits=Limits(tokens_per_minute=100, concurrent=1, usd_per_month=1e9)),
        key(model_limits={"tiny": Limits(usd_per_day=1.0), "llama-7b": Limits(usd_per_day=9.0)}),
    ],
    ids=map(str, range(7)),
)
def test_a_key_can_have_what_its_team_has(granted: Key) -> None:
    assert field_beyond_team(granted, BLUE) is None


@pytest.mark.parametrize(
    ("granted", "field"),
    [
        (key(priority="high"), "priority"),
        (key(weight=2.1), "weight"),
        (key(fallback=True), "fallback"),
        (key(models=("tiny", "other")), "models"),
        (key(models=("llama*",)), "models"),
        (key(models=("*",)), "models"),
        (key(strategies=("random",)), "strategies"),
        (key(limits=Limits(tokens_per_minute=101)), "limits.tokens_per_minute"),
        (key(limits=Limits(concurrent=4)), "limits.concurrent"),
        (key(model_limits={"tiny": Limits(usd_per_day=1.5)}), "model_limits.tiny.usd_per_day"),
        (key(model_limits={"other": Limits(concurrent=4)}), "model_limits.other.concurrent"),
    ],
)
def test_a_key_cannot_have_more(granted: Key, field: str) -> None:
    assert field == field_beyond_team(granted, BLUE)


def test_a_team_without_limits_allows_all_but_a_higher_priority_and_share() -> None:
    team = Team("blue")

    assert field_beyond_team(key(models=("x",), fallback=True, limits=Limits(concurrent=10**6)), team) is None
    assert "weight" == field_beyond_team(key(weight=1.5), team)
