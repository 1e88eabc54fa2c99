"""Routes from settings."""

import random

from gateway.rollout.assembly import routes_of
from gateway.rollout.rule import Rule
from gateway.settings import RouteSettings


def settings(**fields: object) -> RouteSettings:
    return RouteSettings.model_validate({"name": "chat", "to": [{"model": "a"}], **fields})


def test_no_routes_are_none() -> None:
    """So that a request need not look; but once there were some, their counts stay."""
    former = routes_of([settings()], random.Random(1), None)

    assert None is routes_of([], random.Random(1), None)
    assert [] == list(routes_of([], random.Random(1), former) or [None])


def test_a_route_as_it_is_told() -> None:
    told = settings(
        to=[{"model": "a", "weight": 9}, {"model": "b", "weight": 1}],
        sticky="session",
        when_not_ready="wait",
        count="exact",
        variant_permits=True,
        rules=[
            {"name": "long", "model": "c", "prompt_tokens_from": 5, "prompt_tokens_below": 9, "max_tokens_from": 7},
            {"model": "d", "asks": ["images"], "teams": ["x"]},
        ],
    )
    routes = routes_of([told], random.Random(1), None)
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
        Rule("long", "c", prompt_tokens_from=5, prompt_tokens_below=9, max_tokens_from=7),
        Rule("d", "d", asks=frozenset({"images"}), teams=frozenset({"x"})),
    ) == route.rules


def test_callers_stay_where_they_are_while_the_name_or_the_salt_stays() -> None:
    """Whatever chance says where dealing begins."""
    halves = [{"model": "a"}, {"model": "b"}]
    callers = [f"u{i}" for i in range(64)]

    def dealt(seed: int, **fields: object) -> list[str]:
        routes = routes_of([settings(to=halves, **fields)], random.Random(seed), None)
        return [route.variants.of(each)[0] for route in routes or () for each in callers]

    assert dealt(1) == dealt(2)
    assert dealt(1) == dealt(1, name="other", salt="chat")
    assert dealt(1) != dealt(1, salt="again")
