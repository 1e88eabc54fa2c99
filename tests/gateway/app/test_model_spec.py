"""Facts about what models are built from."""

import httpx
import pytest

from gateway.app.fallbacks import FallbackFactory
from gateway.app.mapping.models import serving_plan
from gateway.app.model_spec import ModelSpec
from tests.gateway.settings.examples import parsed, with_model, with_workers

FACTORY = FallbackFactory(httpx.AsyncClient(timeout=60, verify=False))


def spec_of(text: str) -> ModelSpec:
    return serving_plan(parsed(text), with_workers(text), FACTORY).models[0]


def test_equal_settings_need_no_new_build() -> None:
    assert spec_of(with_model()) == spec_of(with_model())
    assert spec_of(with_model()) != spec_of(with_model(aliases=["x"]))
    assert spec_of(with_model()) != spec_of(f"{with_model()}\ntimeouts: {{idle_s: 7}}")


def test_engines_are_followed_where_a_strategy_may_need_them() -> None:
    assert [False, True, True] == [
        spec_of(with_model(**fields)).needs_events
        for fields in ({}, {"strategy": "kv_aware"}, {"strategy_header": True})
    ]


@pytest.mark.parametrize(("here", "there", "expected"), [("a", "b", 0.5), ("a", "a", 0.0), (None, "b", 0.0)])
def test_a_worker_of_another_zone_costs_more(here: str | None, there: str, expected: float) -> None:
    model = with_model(workers=[{"url": "http://a:1", "zone": there}])
    spec = spec_of(f"{model}\nserver: {{zone: {here or 'null'}}}\nadvanced: {{zone_penalty_s: 0.5}}")

    assert expected == spec.zone_penalty_of(spec.workers[0])
