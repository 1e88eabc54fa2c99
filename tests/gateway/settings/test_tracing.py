"""Groups of settings for traces."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.settings import TracingSettings, applicable, build, masked
from tests.gateway.settings.examples import SMALLEST, parsed, sentences


def settings_of(**tracing: Any) -> TracingSettings:
    return build({**parsed_models(), "tracing": tracing}, {}).tracing


def parsed_models() -> dict[str, Any]:
    return {"models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}]}


def test_nothing_is_asked_to_anybody_by_default() -> None:
    settings = parsed(SMALLEST)

    assert (None, False, 1.0) == (settings.tracing.endpoint, settings.tracing.content, settings.tracing.ratio)
    assert () == settings.teams


@pytest.mark.parametrize(
    ("said", "headers"),
    [
        ({}, {}),
        ({"secret": "abc"}, {"authorization": "Bearer abc"}),
        ({"auth": "basic", "secret": "pk-lf-1:sk-lf-2"}, {"authorization": "Basic cGstbGYtMTpzay1sZi0y"}),
        ({"headers": {"X-Team": "blue"}, "secret": "a"}, {"x-team": "blue", "authorization": "Bearer a"}),
    ],
)
def test_a_receiver_is_sent_what_it_asks_for(said: dict[str, Any], headers: dict[str, str]) -> None:
    """A token, or a name and a password as HTTP has them (RFC 7617), beside other headers."""
    assert headers == settings_of(endpoint="http://collector:4318", **said).sent_headers


def test_a_secret_may_stand_in_the_environment() -> None:
    data = {
        **parsed_models(),
        "tracing": {"endpoint": "http://collector:4318", "secret_env": "COLLECTOR"},
        "teams": [{"name": "blue", "tracing": {"endpoint": "https://l.example.com", "secret_env": "BLUE"}}],
    }
    settings = build(data, {"COLLECTOR": "abc", "BLUE": "def"})
    (blue,) = settings.teams

    assert blue.tracing is not None
    assert ({"authorization": "Bearer abc"}, {"authorization": "Bearer def"}) == (
        settings.tracing.sent_headers,
        blue.tracing.sent_headers,
    )


def test_secrets_are_masked() -> None:
    """Those in headers too."""
    data = {
        **parsed_models(),
        "tracing": {"endpoint": "http://collector:4318", "secret": "sk-hidden", "headers": {"x-key": "also-hidden"}},
    }

    assert "hidden" not in masked(build(data, {}))


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("tracing: {secret: abc}", "tracing.endpoint is required. Set the address of the receiver."),
        ("tracing: {content: true}", "tracing.endpoint is required. Set the address of the receiver."),
        ("tracing: {headers: {a: b}}", "tracing.endpoint is required. Set the address of the receiver."),
        (
            "teams: [{name: blue, tracing: {}}]",
            "teams[0].tracing.endpoint is required. Set the address of the receiver.",
        ),
        (
            "tracing: {endpoint: 'http://c', secret: abc, headers: {Authorization: x}}",
            "tracing.headers.authorization cannot be combined with tracing.secret.",
        ),
        (
            "tracing: {endpoint: 'http://c', auth: basic, secret: abc}",
            "tracing.secret must be USER:PASSWORD if auth is basic.",
        ),
        (
            "tracing: {endpoint: c}",
            "tracing.endpoint is 'c'; the value must be an http:// or https:// address with a host.",
        ),
        ("tracing: {ratio: 2}", "tracing.ratio is 2; the value must be at most 1."),
    ],
)
def test_what_cannot_be_is_named(said: str, sentence: str) -> None:
    assert [sentence] == sentences(f"{SMALLEST}{said}\n")


def test_the_operators_destination_needs_a_restart_and_a_teams_does_not() -> None:
    running = build(parsed_models(), {})
    team = {"name": "blue", "tracing": {"endpoint": "http://c"}}
    wanted = build({**parsed_models(), "tracing": {"endpoint": "http://c"}, "teams": [team]}, {})
    change = applicable(running, wanted)

    assert ("tracing.endpoint",) == change.needs_restart
    assert (None, wanted.teams) == (change.settings.tracing.endpoint, change.settings.teams)


def test_the_example_of_the_readme_is_taken() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/tracing.md").read_text(encoding="utf-8")
    example = page.partition("```yaml\n")[2].partition("```")[0]
    settings = build({**parsed_models(), **yaml.safe_load(example)}, {"BLUE_LANGFUSE": "pk-lf-1:sk-lf-2"})
    (blue,) = settings.teams

    assert ("http://otel-collector:4318", 0.1, False) == (
        settings.tracing.endpoint,
        settings.tracing.ratio,
        settings.tracing.content,
    )
    assert blue.tracing is not None
    assert ({"authorization": "Basic cGstbGYtMTpzay1sZi0y"}, True) == (blue.tracing.sent_headers, blue.tracing.content)
