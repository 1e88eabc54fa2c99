"""/admin/v1/routes."""

from typing import Any

import pytest

from gateway.models.model_names import ModelNames
from gateway.models.registry import Models
from gateway.models.routes.route import Route
from gateway.models.routes.routes import RouteTable
from gateway.models.routes.rule import RouteRule
from routing.variants import Variants
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.administration import administration, fault, message
from tests.gateway.api.admin_v1.test_models import of
from tests.gateway.examples import a_model


def routed(**weights: float) -> Models:
    """Two models behind the route ``org/chat``, and a rule that leads to a third."""
    models = Models()
    serve(models, **(weights or {"tiny": 95.0, "big": 5.0}))
    return models


def serve(models: Models, **weights: float) -> None:
    """Serve the route with these weights in the settings."""
    rules = [RouteRule("long", "large", prompt_tokens_from=1000)]
    variants = Variants(weights, key="chat")
    route = Route("org/chat", first=next(iter(weights)), variants=variants, rules=rules, sticky="user")
    names = ModelNames([*((name, []) for name in weights), ("org/chat", ["gpt-4o"])])
    models.replace({name: a_model(Answers(), name=name) for name in weights}, names, RouteTable([route]))


def put(**weights: Any) -> Any:
    return {"route": "org/chat", "weights": weights}


ROUTE = {
    "object": "route",
    "name": "org/chat",
    "sticky": "user",
    "source": "settings",
    "variants": [
        {"model": "tiny", "weight": 95.0, "configured_weight": 95.0, "share": 0.95},
        {"model": "big", "weight": 5.0, "configured_weight": 5.0, "share": 0.05},
    ],
    "rules": [{"name": "long", "model": "large"}],
}
CHANGED = {
    **ROUTE,
    "source": "api",
    "variants": [
        {"model": "tiny", "weight": 60.0, "configured_weight": 95.0, "share": 0.75},
        {"model": "big", "weight": 20.0, "configured_weight": 5.0, "share": 0.25},
    ],
}


async def test_routes_are_listed_with_weights_shares_and_rules() -> None:
    async with administration(gateway=of(routed())) as admin:
        listed = await admin.get("/routes")
    async with administration(gateway=of(Models())) as admin:
        none = await admin.get("/routes")

    assert [ROUTE] == listed["data"]
    assert [] == none["data"]


async def test_an_operator_sets_weights_that_apply_at_once() -> None:
    models = routed()
    async with administration(gateway=of(models)) as admin:
        answer = await admin.ask("PUT", "/routes/weights", put(big=20, tiny=60), who="op")
        assert (200, CHANGED) == (answer.status_code, answer.json())
        assert [CHANGED] == (await admin.get("/routes"))["data"]
        assert {"tiny": 0.75, "big": 0.25} == models.routes.get("org/chat").variants.shares  # type: ignore[union-attr]
        (entry,) = await admin.audited()

    assert ("op", "operator", "update", "route", "org/chat") == tuple(
        entry[name] for name in ("who", "role", "action", "kind", "id")
    )
    assert {"weights": {"tiny": 95.0, "big": 5.0}, "source": "settings"} == entry["before"]
    assert {"weights": {"tiny": 60.0, "big": 20.0}, "source": "api"} == entry["after"]


async def test_weights_survive_a_reload_until_those_in_the_settings_change() -> None:
    models = routed()
    async with administration(gateway=of(models)) as admin:
        await admin.ask("PUT", "/routes/weights", put(tiny=60, big=20), who="op")
        serve(models, tiny=95.0, big=5.0)
        assert [CHANGED] == (await admin.get("/routes"))["data"]
        serve(models, tiny=90.0, big=10.0)
        (route,) = (await admin.get("/routes"))["data"]

    assert ("settings", [90.0, 10.0]) == (route["source"], [each["weight"] for each in route["variants"]])


async def test_another_gateway_with_the_same_store_uses_the_weights() -> None:
    models, other = routed(), routed()
    async with administration(gateway=of(models)) as admin:
        await admin.ask("PUT", "/routes/weights", put(tiny=60, big=20), who="op")
        other.use_weights((await admin.store.load()).routes)

    assert {"tiny": 0.75, "big": 0.25} == other.routes.get("org/chat").variants.shares  # type: ignore[union-attr]


async def test_an_operator_returns_to_the_weights_of_the_settings() -> None:
    async with administration(gateway=of(routed())) as admin:
        await admin.ask("PUT", "/routes/weights", put(tiny=60, big=20), who="op")
        answers = [await admin.ask("DELETE", "/routes/weights?route=org/chat", who="op") for _ in range(2)]
        assert [ROUTE] == (await admin.get("/routes"))["data"]
        newest, _ = await admin.audited()

    assert [204, 404] == [answer.status_code for answer in answers]
    assert "The route 'org/chat' uses the weights of the settings" == message(answers[1])
    assert {"weights": {"tiny": 60.0, "big": 20.0}, "source": "api"} == newest["before"]
    assert {"weights": {"tiny": 95.0, "big": 5.0}, "source": "settings"} == newest["after"]


async def test_weights_of_a_route_that_is_gone_can_be_removed() -> None:
    models = routed()
    async with administration(gateway=of(models)) as admin:
        await admin.ask("PUT", "/routes/weights", put(tiny=60, big=20), who="op")
        models.replace({}, ModelNames([]))
        answers = [await admin.ask("DELETE", "/routes/weights?route=org/chat", who="op") for _ in range(2)]
        entry = (await admin.audited())[0]

    assert [204, 404] == [answer.status_code for answer in answers]
    assert "The route 'org/chat' is not configured; give its name, not an alias" == message(answers[1])
    assert ({"weights": {"tiny": 60.0, "big": 20.0}, "source": "api"}, None) == (entry["before"], entry["after"])


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ({"tiny": 1}, "'weights' lacks the model 'big'. Give a weight for each model of the route, 0 for none."),
        ({"tiny": 1, "big": 1, "large": 1}, "'weights' names the model 'large', which is not in the list 'to'"),
        ({"tiny": 0, "big": 0}, "'weights' needs at least one weight above 0."),
        ({"tiny": -1, "big": 1}, "weights"),
        ({"tiny": "1", "big": 1}, "weights"),
        ({"tiny": 1e300, "big": 1}, "weights"),
        ({}, "weights"),
    ],
)
async def test_weights_that_do_not_fit_the_route_are_refused(weights: dict[str, Any], text: str) -> None:
    models = routed()
    async with administration(gateway=of(models)) as admin:
        answer = await admin.ask("PUT", "/routes/weights", put(**weights), who="op")
        assert [ROUTE] == (await admin.get("/routes"))["data"]
        assert [] == await admin.audited()

    status, _, param = fault(answer)
    assert (400, "weights") == (status, str(param).split(".")[0])
    assert text in message(answer)


async def test_a_route_is_named_as_in_the_settings() -> None:
    async with administration(gateway=of(routed())) as admin:
        for name in ("gpt-4o", "nowhere"):
            answer = await admin.ask("PUT", "/routes/weights", {"route": name, "weights": {"tiny": 1}}, who="op")
            assert (404, "not_found", "route") == fault(answer)


async def test_viewers_change_no_weights() -> None:
    async with administration(gateway=of(routed())) as admin:
        answers = [
            await admin.ask("PUT", "/routes/weights", put(tiny=1, big=1), who="vi"),
            await admin.ask("DELETE", "/routes/weights?route=org/chat", who="vi"),
        ]

    assert [403, 403] == [answer.status_code for answer in answers]
