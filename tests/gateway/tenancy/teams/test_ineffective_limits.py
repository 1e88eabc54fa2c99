"""Limits that are set and have no effect."""

from typing import Any

import pytest

from gateway.tenancy.teams.declared import DeclaredKey, DeclaredTeam
from gateway.tenancy.teams.ineffective_limits import ineffective_limits
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team


def sentences(*keys: Key, free: tuple[str, ...] = ("tiny",), **team: Any) -> list[str]:
    declared = DeclaredTeam(Team("blue", **team), tuple(DeclaredKey(key, b"") for key in keys))
    return list(ineffective_limits([declared], {"tiny"}, free))


@pytest.mark.parametrize("name", ["gpt-4o", "tyni"])
def test_limits_of_a_model_that_is_not_configured_have_no_effect(name: str) -> None:
    assert [
        f"limits of the team 'blue' for {name!r} have no effect: no model has that name (aliases do not count here)"
    ] == sentences(model_limits={name: Limits(concurrent=1)})


def test_budgets_do_not_count_models_without_a_price() -> None:
    key = Key("ci", "blue", "", limits=Limits(usd_per_day=1.0))

    assert ["budgets of the key 'ci' in US dollars do not count models without a price: tiny"] == sentences(key)
    assert [] == sentences(key, free=())


def test_limits_that_work_are_not_reported() -> None:
    assert [] == sentences(limits=Limits(tokens_per_day=5), model_limits={"tiny": Limits(concurrent=1)})
