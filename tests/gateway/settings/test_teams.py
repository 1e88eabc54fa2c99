"""Teams, their keys and limits."""

import textwrap

import pytest

from tests.gateway.settings.examples import SMALLEST, parsed, sentences


def test_teams_are_declared_beside_models() -> None:
    """The smallest form, as the documentation has it."""
    text = """
    teams: [{name: blue, weight: 1, models: [tiny], limits: {requests_per_minute: 600, tokens_per_minute: 50000,
             max_concurrent_requests: 50, usd_per_month: 100}, keys: [{id: ci, secret_env: BLUE_KEY}]}]
    admin: {port: 8081, keys: [{role: owner, secret_env: WARMGATE_ADMIN_KEY}]}
    store: {url: "sqlite:///warmgate.db"}
    """
    settings = parsed(SMALLEST + textwrap.dedent(text), BLUE_KEY="b", WARMGATE_ADMIN_KEY="a")

    assert ("blue", ("tiny",), 50000, 100) == (
        settings.teams[0].name,
        settings.teams[0].models,
        settings.teams[0].limits.tokens_per_minute,
        settings.teams[0].limits.usd_per_month,
    )
    assert (8081, "owner", "sqlite:///warmgate.db") == (
        settings.admin.port,
        settings.admin.keys[0].id,
        settings.store.url,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "teams: [{name: no spaces}]",
            "teams[0].name is 'no spaces'; "
            "the value must be a name of up to 63 letters (at least one), digits, dots, "
            "dashes and underscores.",
        ),
        (
            "teams: [{name: blue}, {name: blue}]",
            "teams[1].name is 'blue', which is already used by teams[0].name.",
        ),
        (
            "teams: [{name: a, keys: [{id: k, secret: x}]}, {name: b, keys: [{id: k, secret: y}]}]",
            "teams[1].keys[0].id is 'k', which is already used by teams[0].keys[0].id.",
        ),
        (
            "teams: [{name: a, keys: [{id: k, secret: x, allowed_cidrs: [10.0.0.1/8]}]}]",
            "teams[0].keys[0].allowed_cidrs[0] is '10.0.0.1/8'; the value must be an IP address or a network such as "
            "10.0.0.0/8.",
        ),
        (
            "teams: [{name: a, limits: {max_concurrent_requests: 0}}]",
            "teams[0].limits.max_concurrent_requests is 0; the value must be at least 1.",
        ),
        (
            "teams: [{name: a, model_limits: {tiny: {max_concurent_requests: 1}}}]",
            "teams[0].model_limits.tiny.max_concurent_requests is not a setting; "
            "did you mean 'max_concurrent_requests'.",
        ),
    ],
)
def test_what_is_wrong_is_reported_by_its_place(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}\n{text}")
