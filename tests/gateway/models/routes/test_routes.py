"""The routes in force."""

from gateway.models.routes.route import Route, RouteChoice
from gateway.models.routes.routes import RouteTable
from gateway.models.routes.rule import RouteRule
from gateway.tenancy.teams.route_weights import RouteWeights
from routing.variants import Variants


def a_route(name: str, *models: str, rule: str | None = None) -> Route:
    rules = [] if rule is None else [RouteRule("r", rule, prompt_tokens_from=1)]
    return Route(name, first=models[0], variants=Variants(dict.fromkeys(models, 1.0), key=name), rules=rules)


def test_they_are_found_by_name() -> None:
    chat = a_route("chat", "a")
    routes = RouteTable([chat])

    assert (chat, None) == (routes.get("chat"), routes.get("a"))
    assert [chat] == list(routes)


def test_they_are_found_by_where_they_lead() -> None:
    """A weight leads there, or a rule."""
    one, two, three = a_route("one", "a", "b"), a_route("two", "b"), a_route("three", "b", rule="a")

    assert [one, three] == RouteTable([one, two, three]).leading_to("a")


def test_counting_goes_on_through_a_reload() -> None:
    """A counter of Prometheus never shrinks, though its route is gone."""
    former = RouteTable([a_route("chat", "a")])
    former.counters[RouteChoice("chat", "a", "weight")] += 3
    routes = RouteTable([], former)

    assert {RouteChoice("chat", "a", "weight"): 3} == routes.counters


def test_stored_weights_apply_while_the_settings_are_the_same() -> None:
    chat, other = a_route("chat", "a", "b"), a_route("other", "a", "b")
    routes = RouteTable([chat, other])
    for_these = RouteWeights("chat", {"a": 9.0, "b": 1.0}, {"a": 1.0, "b": 1.0})
    for_former = RouteWeights("other", {"a": 9.0, "b": 1.0}, {"a": 2.0, "b": 1.0})

    routes.use_weights({"chat": for_these, "other": for_former, "gone": for_former})
    assert ({"a": 0.9, "b": 0.1}, {"a": 0.5, "b": 0.5}) == (chat.variants.shares, other.variants.shares)
    routes.use_weights({})
    assert {"a": 0.5, "b": 0.5} == chat.variants.shares
