"""What follows from a route's settings before any request has come."""

from gateway.models.routes.route import Route
from gateway.models.routes.rule import RouteRule
from routing.variants import Variants

VARIANTS = Variants({"a": 1.0, "b": 3.0, "off": 0.0}, key="chat")


def test_it_leads_to_its_variants_and_to_the_models_of_its_rules() -> None:
    """Not to what is switched off."""
    route = Route("chat", first="a", variants=VARIANTS, rules=[RouteRule("long", "large", prompt_tokens_from=10)])

    assert {"a", "b", "large"} == route.models


def test_other_weights_change_the_shares_and_continue_the_sequence() -> None:
    variants = Variants({"a": 1.0, "b": 3.0, "off": 0.0}, key="chat")
    for _ in range(5):
        variants.deal()
    route = Route("chat", first="a", variants=variants)
    assert ({"a": 1.0, "b": 3.0, "off": 0.0}, False) == (route.configured_weights, route.is_reweighed)

    route.reweigh({"a": 1.0, "b": 0.0, "off": 1.0})
    assert {"a": 0.5, "off": 0.5} == route.variants.shares
    assert {"a", "off"} == route.models
    assert route.is_reweighed
    route.reweigh(route.configured_weights)
    assert ({"a": 0.25, "b": 0.75}, False) == (route.variants.shares, route.is_reweighed)
    assert variants.peek() == route.variants.peek()


def test_the_same_weights_change_nothing() -> None:
    route = Route("chat", first="a", variants=VARIANTS)
    route.reweigh({"off": 0.0, "b": 3.0, "a": 1.0})

    assert VARIANTS is route.variants


def test_only_what_rules_ask_for_is_looked_at() -> None:
    """Bodies are long, and are not read twice for nothing."""
    plain = Route("chat", first="a", variants=VARIANTS, rules=[RouteRule("r", "b", teams=frozenset({"x"}))])
    long = Route("chat", first="a", variants=VARIANTS, rules=[RouteRule("r", "b", prompt_tokens_below=5)])
    pictures = Route("chat", first="a", variants=VARIANTS, rules=[RouteRule("r", "b", asks=frozenset({"images"}))])

    assert [(False, False), (True, False), (False, True)] == [
        (route.counts_tokens, route.looks_inside) for route in (plain, long, pictures)
    ]
