"""Limit templates and model groups, and the names that refer to them."""

import pytest

from tests.gateway.settings.examples import SMALLEST, parsed, sentences

NAMED = """
limit_templates: [{name: standard, limits: {requests_per_minute: 600}}]
model_groups: [{name: chat, models: [tiny, "gpt-*"]}]
"""


def test_teams_keys_and_created_teams_name_templates_and_groups() -> None:
    settings = parsed(
        f"""{SMALLEST}{NAMED}
teams:
  - {{name: blue, limit_template: standard, models: [group:chat, big],
     keys: [{{id: ci, secret: s, limit_template: standard, models: [group:chat]}}]}}
identity:
  issuers:
    - {{name: okta, issuer: "https://login.example.com", audiences: [warmgate],
       rules: [{{value: "*", team: "{{rest}}", models: [group:chat],
                create_team: {{limit_template: standard, models: [group:chat]}}}}]}}
"""
    )
    (team,) = settings.teams

    assert ("standard", ("group:chat", "big")) == (team.limit_template, team.models)
    assert 600 == settings.limit_templates[0].limits.requests_per_minute
    assert ("tiny", "gpt-*") == settings.model_groups[0].models


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "teams: [{name: blue, limit_template: standrd}]",
            "teams[0].limit_template names 'standrd', which is not one of limit_templates; did you mean 'standard'.",
        ),
        (
            "teams: [{name: blue, keys: [{id: ci, secret: s, limit_template: gold}]}]",
            "teams[0].keys[0].limit_template names 'gold', which is not one of limit_templates.",
        ),
        (
            "teams: [{name: blue, models: [tiny, group:code]}]",
            "teams[0].models[1] names 'code', which is not one of model_groups.",
        ),
        (
            "teams: [{name: blue, keys: [{id: ci, secret: s, models: [group:code]}]}]",
            "teams[0].keys[0].models[0] names 'code', which is not one of model_groups.",
        ),
        (
            "teams: [{name: blue, models: ['group:*']}]",
            "teams[0].models[0] is 'group:*'; the value must be 'group:' and the name of a model group.",
        ),
    ],
)
def test_a_name_must_exist(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}{NAMED}{text}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "limit_templates: [{name: a, limits: {}}, {name: a, limits: {}}]",
            "limit_templates[1].name is 'a', which is already used by limit_templates[0].name.",
        ),
        (
            "model_groups: [{name: a, models: []}, {name: a, models: []}]",
            "model_groups[1].name is 'a', which is already used by model_groups[0].name.",
        ),
        (
            "model_groups: [{name: a, models: [group:b]}, {name: b, models: []}]",
            "model_groups[0].models[0] is 'group:b'; a model name must not begin with 'group:', which stands for a "
            "model group.",
        ),
    ],
)
def test_names_are_unique_and_groups_contain_no_groups(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}\n{text}")


@pytest.mark.parametrize(
    "place",
    ["models[0].name", "models[0].aliases[0]"],
)
def test_a_model_cannot_have_a_name_that_stands_for_a_group(place: str) -> None:
    name, alias = ("group:chat", "x") if place.endswith("name") else ("tiny", "group:chat")
    text = f"models: [{{name: {name}, aliases: [{alias}], workers: [{{url: 'http://a'}}]}}]"

    assert [
        f"{place} is 'group:chat'; a model name must not begin with 'group:', which stands for a model group."
    ] == sentences(text)


def test_teams_of_rules_that_create_teams_name_existing_templates() -> None:
    text = """
identity:
  issuers:
    - {name: okta, issuer: "https://login.example.com", audiences: [warmgate],
       rules: [{value: "*", team: "{rest}", models: [group:code], create_team: {limit_template: gold}}]}
"""
    rule = "identity.issuers[0].rules[0]"

    assert {
        f"{rule}.create_team.limit_template names 'gold', which is not one of limit_templates.",
        f"{rule}.models[0] names 'code', which is not one of model_groups.",
    } == set(sentences(f"{SMALLEST}{text}"))
