"""Values for models, routes and adapters, from settings."""

import random
from typing import Any

from gateway.app.mapping.models import adapter_of, adapter_timeouts, routes_of
from gateway.models.adapters.adapter import Adapter
from gateway.models.adapters.registry import AdapterTimeouts
from gateway.models.routes.rule import RouteRule
from gateway.settings import AdaptersSettings, ModelSettings, RouteSettings


def settings(**fields: object) -> RouteSettings:
    return RouteSettings.model_validate({"name": "chat", "to": [{"model": "a"}], **fields})


def test_no_routes_are_not() -> None:
    former = routes_of([settings()], random.Random(1), None)

    assert None is routes_of([], random.Random(1), None)
    assert [] == list(routes_of([], random.Random(1), former) or [None])


def test_a_route_as_it_is_reported() -> None:
    reported = settings(
        to=[{"model": "a", "weight": 9}, {"model": "b", "weight": 1}],
        sticky="session",
        on_unavailable="wait",
        count="exact",
        variant_permits=True,
        rules=[
            {"name": "long", "model": "c", "prompt_tokens_from": 5, "prompt_tokens_below": 9, "max_tokens_from": 7},
            {"model": "d", "requires": ["images"], "teams": ["x"]},
        ],
    )
    routes = routes_of([reported], random.Random(1), None)
    route = None if routes is None else routes.get("chat")

    assert route is not None
    assert ("a", "session", False, True, True) == (
        route.first,
        route.sticky,
        route.passes_on,
        route.counts_exactly,
        route.checks_variants,
    )
    assert {"a": 0.9, "b": 0.1} == route.variants.shares
    assert (
        RouteRule("long", "c", prompt_tokens_from=5, prompt_tokens_below=9, max_tokens_from=7),
        RouteRule("d", "d", asks=frozenset({"images"}), teams=frozenset({"x"})),
    ) == route.rules


def test_callers_stay_where_they_are_while_the_name_or_the_salt_stays() -> None:
    halves = [{"model": "a"}, {"model": "b"}]
    callers = [f"u{i}" for i in range(64)]

    def dealt(seed: int, **fields: object) -> list[str]:
        routes = routes_of([settings(to=halves, **fields)], random.Random(seed), None)
        return [route.variants.order(each)[0] for route in routes or () for each in callers]

    assert dealt(1) == dealt(2)
    assert dealt(1) == dealt(1, name="other", salt="chat")
    assert dealt(1) != dealt(1, salt="again")


def a_model(**fields: Any) -> ModelSettings:
    return ModelSettings.model_validate({"name": "poems", "workers": [{"url": "http://a:1"}], **fields})


def test_a_model_of_its_own_is_no_adapter() -> None:
    assert None is adapter_of(a_model())


def test_an_adapter_has_the_name_that_workers_know() -> None:
    """It may differ from the name in requests, as with SGLang."""
    loading = {"path": "/poet", "load_on_demand": True, "max_per_worker": 3}

    assert Adapter("poet", "tiny") == adapter_of(a_model(upstream_model="poet", adapter={"of": "tiny"}))
    assert Adapter("poet", "tiny", "/poet", load_on_demand=True, max_per_worker=3) == adapter_of(
        a_model(upstream_model="tiny:poet", adapter={"of": "tiny", "name": "poet", **loading})
    )


def test_timeouts_of_adapters_are_those_of_the_settings() -> None:
    reported = AdaptersSettings(load_s=3, load_timeout_s=4, retry_s=5)

    assert AdapterTimeouts(load_s=3.0, load_timeout_s=4.0, retry_s=5.0) == adapter_timeouts(reported)
