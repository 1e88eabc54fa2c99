"""Values for models, routes and adapters, from settings."""

import random
from typing import Any

from gateway.app.mapping.models import (
    adapter_of,
    adapter_timeouts,
    fairness_of,
    has_objectives,
    has_rewrites,
    response_caching_of,
    routes_of,
)
from gateway.models.adapters.adapter import Adapter
from gateway.models.adapters.registry import AdapterTimeouts
from gateway.models.response_caching import ResponseCaching
from gateway.models.routes.rule import RouteRule
from gateway.settings import AdaptersSettings, ModelSettings, RouteSettings, build
from routing.queueing.fair_queue import Fairness


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


def caching(*guardrails: dict[str, Any], **fields: Any) -> ResponseCaching | None:
    model = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}], "response_cache": "always", **fields}
    settings = build({"models": [model], "guardrails": list(guardrails)}, {})
    return response_caching_of(settings.models[0], settings)


def test_answers_are_kept_only_if_the_model_says_so() -> None:
    """For all requests, or for those that ask for it."""
    always, on_request = caching(), caching(response_cache="on_request")

    assert caching(response_cache="off") is None
    assert always is not None
    assert on_request is not None
    assert (False, True) == (always.needs_request, on_request.needs_request)


def test_whatever_changes_answers_changes_the_identity_of_a_model() -> None:
    """Workers and prices do not; a scaled model keeps its answers."""
    pii = {"name": "pii", "kind": "pii", "action": "redact"}
    others = [
        caching(upstream_model="other"),
        caching(adapter={"of": "base"}),
        caching(adapter={"of": "base", "name": "lora"}),
        caching(adapter={"of": "base", "name": "lora", "path": "/loras/2"}),
        caching(max_output_tokens=5),
        caching(pii),
        caching({**pii, "action": "block"}),
        caching(pii, guardrails=["pii"]),
    ]

    assert caching() == caching(workers=[{"url": "http://127.0.0.1:2"}], price={"input_usd": 3})
    assert 1 + len(others) == len({caching(), *others})


def test_rewrites_belong_to_a_pool() -> None:
    data = {
        "models": [
            {"name": "a", "inference_pool": {"name": "pool", "rewrites": True}},
            {"name": "b", "inference_pool": {"name": "pool"}},
            {"name": "c", "workers": [{"url": "http://c"}]},
        ]
    }
    made = build(data, {})

    assert [True, False, False] == [has_rewrites(model) for model in made.models]


def test_objectives_need_a_queue_with_priorities() -> None:
    """Otherwise, only teams need one. Requests without a team have the limit of all requests."""
    models = [
        {"name": "a", "inference_pool": {"name": "pool", "objectives": True}},
        {"name": "b", "inference_pool": {"name": "pool"}},
    ]
    made = build({"models": models, "routing": {"max_waiting": 77}}, {})
    governed = build({"models": models, "teams": [{"name": "blue"}]}, {})

    assert [True, False] == [has_objectives(model) for model in made.models]
    assert [Fairness(77, 0.1, 30.0), None] == [fairness_of(made, model) for model in made.models]
    assert [Fairness(1024, 0.1, 30.0)] * 2 == [fairness_of(governed, model) for model in governed.models]
