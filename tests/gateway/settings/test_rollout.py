"""Groups of settings for names that stand for several models."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.settings import RouteRuleSettings, RouteSettings, VariantSettings
from tests.gateway.settings.examples import parsed, sentences

PAGE = Path(__file__).parents[3] / "docs/how-to/canary-routes.md"


def with_route(**fields: Any) -> str:
    """The models a and b, and a route to a unless *fields* say more."""
    models = [{"name": name, "workers": [{"url": f"http://{name}:1"}]} for name in ("a", "b")]
    text: str = yaml.safe_dump({"models": models, "routes": [{"name": "chat", "to": [{"model": "a"}], **fields}]})
    return text


def test_there_are_not_unless_some_are_given() -> None:
    assert () == parsed().routes


def test_a_route_is_a_name_and_where_it_leads() -> None:
    """All else has a default: requests are dealt, and go on where no one is ready."""
    assert (
        RouteSettings(name="chat", to=(VariantSettings(model="a", weight=1),), sticky="none", on_unavailable="next"),
    ) == parsed(with_route()).routes


def test_a_rule_as_it_is_reported() -> None:
    rule = {"model": "b", "name": "long", "prompt_tokens_from": 8000, "requires": ["tools"], "teams": ["x"]}

    assert (
        RouteRuleSettings(model="b", name="long", prompt_tokens_from=8000, requires=("tools",), teams=("x",)),
    ) == parsed(with_route(rules=[rule])).routes[0].rules


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"to": [{"model": "c"}]}, "routes[0].to[0].model is 'c', but no model has that name."),
        (
            {"rules": [{"model": "aa", "prompt_tokens_from": 1}]},
            "routes[0].rules[0].model is 'aa', but no model has that name; did you mean 'a'.",
        ),
        ({"name": "a"}, "routes[0].name is 'a', which is already used by models[0].name."),
        ({"aliases": ["b"]}, "routes[0].aliases[0] is 'b', which is already used by models[1].name."),
        ({"to": []}, "routes[0].to needs at least one model with a weight above 0."),
        ({"to": [{"model": "a", "weight": 0}]}, "routes[0].to needs at least one model with a weight above 0."),
        (
            {"to": [{"model": "a"}, {"model": "a"}]},
            "routes[0].to[1].model is 'a', which is already used by routes[0].to[0].model.",
        ),
        ({"rules": [{"model": "b"}]}, "routes[0].rules[0] has no condition, so it would match every request."),
        (
            {"rules": [{"model": "b", "prompt_tokens_from": 9, "prompt_tokens_below": 9}]},
            "routes[0].rules[0].prompt_tokens_below must be greater than routes[0].rules[0].prompt_tokens_from.",
        ),
        (
            {"rules": [{"model": "b", "max_tokens_from": 1}, {"model": "b", "requires": ["tools"]}]},
            "routes[0].rules[1].name is 'b', which is already used by routes[0].rules[0].name.",
        ),
    ],
)
def test_what_cannot_be_is_reported(fields: dict[str, Any], reported: str) -> None:
    assert [reported] == sentences(with_route(**fields))


def test_the_example_of_the_readme_is_one() -> None:
    section = PAGE.read_text(encoding="utf-8")
    example = section.partition("```yaml\n")[2].partition("```")[0]
    names = ("llama-8b", "llama-8b-new", "llama-70b", "qwen-vl")
    models = yaml.safe_dump({"models": [{"name": name, "workers": [{"url": f"http://{name}:1"}]} for name in names]})
    (route,) = parsed(models + example).routes

    assert ("chat", "user", {"llama-8b": 95, "llama-8b-new": 5}) == (
        route.name,
        route.sticky,
        {each.model: each.weight for each in route.to},
    )
    assert ["long", "pictures", "research"] == [rule.name for rule in route.rules]
