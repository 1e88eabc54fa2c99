from typing import Any

import pytest

from gateway.settings import build
from gateway.teams.idle_limits import idle_limits

PRICE = {"input_usd": 1, "output_usd": 2}


def said(model: dict[str, Any], team: dict[str, Any]) -> list[str]:
    models = [{"name": "tiny", "aliases": ["gpt-4o"], "workers": [{"url": "http://127.0.0.1:1"}], **model}]
    return list(idle_limits(build({"models": models, "teams": [{"name": "blue", **team}]}, {})))


@pytest.mark.parametrize("name", ["gpt-4o", "tyni"])
def test_limits_of_a_model_that_is_not_configured_have_no_effect(name: str) -> None:
    """An alias is no model of its own: what it stands for has the limits."""
    assert [
        f"limits of the team 'blue' for {name!r} have no effect: no model has that name (aliases do not count here)"
    ] == said({}, {"model_limits": {name: {"concurrent": 1}}})


def test_budgets_do_not_count_what_has_no_price() -> None:
    key = {"id": "ci", "secret": "s", "limits": {"usd_per_day": 1}}

    assert ["budgets of the key 'ci' in US dollars do not count models without a price: tiny"] == said(
        {}, {"keys": [key]}
    )
    assert [] == said({"price": PRICE}, {"keys": [key]})


def test_limits_that_work_are_not_spoken_of() -> None:
    assert [] == said({}, {"limits": {"tokens_per_day": 5}, "model_limits": {"tiny": {"concurrent": 1}}})
