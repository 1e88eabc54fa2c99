"""The registry of models."""

import random

import pytest

from gateway.models.model_names import ModelNames
from gateway.models.registry import Models
from gateway.models.rewrites import RewriteRule, RewriteRules, Rewrites
from gateway.models.routes.route import Route
from gateway.models.routes.routes import RouteTable
from gateway.protocol.errors import UnknownModel
from gateway.tenancy.teams.route_weights import RouteWeights
from routing.variants import Variants
from tests.gateway.examples import a_model, the_models


def test_a_model_is_found_by_name_alias_and_pattern() -> None:
    """Any of its names leads to the configured model."""
    tiny, big = a_model(name="tiny"), a_model(name="big")
    models = the_models(tiny, big, aliases={"tiny": ["gpt-4o-mini"], "big": ["gpt-4*"]})

    assert [tiny, big, tiny, big] == [models.find(n) for n in ("tiny", "big", "gpt-4o-mini", "gpt-4.1")]


def test_an_unknown_model_is_the_callers_fault() -> None:
    """The message quotes what was asked for, but not at any length."""
    with pytest.raises(UnknownModel) as caught:
        the_models(a_model()).find("x" * 200)

    assert f"The model {'x' * 100!r} does not exist or is not served here" == str(caught.value)
    assert (404, "model") == (caught.value.status, caught.value.param)


def test_ids_are_names_and_exact_aliases() -> None:
    """A pattern is no name that a client could ask for."""
    models = the_models(a_model(name="tiny"), a_model(name="big"), aliases={"tiny": ["gpt-4o", "gpt-4*"]})

    assert ["tiny", "gpt-4o", "big"] == models.ids()
    assert ["tiny", "big"] == [model.name for model in models]


def test_a_registry_is_replaced_as_a_whole() -> None:
    """Names go with their models, and anyone who walks over it sees those of the beginning."""
    old, new = a_model(name="old"), a_model(name="new")
    models = the_models(old, aliases={"old": ["gpt-4o"]})
    walk = iter(models)
    models.replace({"new": new}, ModelNames([("new", ["gpt-4*"])]))

    assert [old] == list(walk)
    assert ([new], ["new"], new) == (list(models), models.ids(), models.find("gpt-4o"))
    assert (new, None) == (models.get("new"), models.get("old"))


def test_the_only_model_is_meant_by_anyone_who_names_none() -> None:
    """With a second, or none, no one can say which."""
    models = the_models(a_model(name="tiny"))

    assert "tiny" == models.only()
    assert the_models(a_model(name="tiny"), a_model(name="big")).only() is None
    assert Models().only() is None


def test_nothing_is_served_before_there_are_models() -> None:
    """A registry begins empty."""
    assert ([], []) == (list(Models()), Models().ids())


def test_a_route_is_found_by_its_names_and_is_no_model() -> None:
    """`find` is for models; what a route means depends on the request."""
    route = Route("chat", first="tiny", variants=Variants({"tiny": 1.0}, key="chat"))
    models = the_models(a_model(name="tiny"))
    before = models.route("chat"), models.configured_name("gpt-4")
    models.replace({"tiny": a_model(name="tiny")}, ModelNames([("tiny", []), ("chat", ["gpt-*"])]), RouteTable([route]))

    assert (None, "gpt-4") == before
    assert [route, route, None, None] == [models.route(name) for name in ("chat", "gpt-4", "tiny", "nobody")]
    assert ["tiny", "chat"] == models.ids()
    assert ("chat", "tiny", "nobody") == tuple(models.configured_name(name) for name in ("gpt-4", "tiny", "nobody"))
    with pytest.raises(UnknownModel):
        models.find("chat")


def test_stored_weights_apply_to_routes_that_come_later() -> None:
    """A reload builds all routes again, and a gateway reads the store before its routes exist."""
    models = the_models(a_model(name="tiny"))
    models.use_weights({"chat": RouteWeights("chat", {"tiny": 1.0, "big": 1.0}, {"tiny": 3.0, "big": 1.0})})
    for weight, expected in ((3.0, {"tiny": 0.5, "big": 0.5}), (4.0, {"tiny": 0.8, "big": 0.2})):
        route = Route("chat", first="tiny", variants=Variants({"tiny": weight, "big": 1.0}, key="chat"))
        models.replace({}, ModelNames([("chat", [])]), RouteTable([route]))
        assert expected == route.variants.shares
    models.use_weights({"chat": RouteWeights("chat", {"tiny": 0.0, "big": 1.0}, {"tiny": 4.0, "big": 1.0})})

    assert {"big": 1.0} == route.variants.shares


def test_rules_replace_names_of_models() -> None:
    """A rule without names applies to all names of its own model. Other models are not affected."""
    rewrites = Rewrites(random.Random(1))
    rewrites.of("tiny").rules = RewriteRules(
        {name: RewriteRule(("tiny-2",), (1,)) for name in ("chat", "big")}, RewriteRule(("tiny-3",), (1,))
    )
    tiny, big = a_model(name="tiny", rewrites=rewrites.of("tiny")), a_model(name="big")
    several, single = the_models(tiny, big, aliases={"tiny": ["gpt"]}), the_models(tiny)
    names = ("chat", "gpt", "tiny", "big", "unknown")

    assert ["tiny-2", "tiny-3", "tiny-3", "big", "unknown"] == [several.rewritten(name) for name in names]
    assert ["tiny-2", "tiny-3", "tiny-3", "tiny-2", "tiny-3"] == [single.rewritten(name) for name in names]
    assert ([True, False], "chat") == (
        [several.has_rewrites, the_models(big).has_rewrites],
        the_models(big).rewritten("chat"),
    )
