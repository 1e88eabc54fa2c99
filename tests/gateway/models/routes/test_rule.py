"""A rule is true of a request if all that it says is true of it."""

import pytest

from gateway.models.routes.rule import RouteRule
from gateway.models.routes.traits import Ability, Traits


def traits(
    tokens: float = 100.0, *, max_tokens: int | None = None, asks: frozenset[Ability] = frozenset(), team: str = ""
) -> Traits:
    return Traits(tokens, max_tokens, asks, team)


@pytest.mark.parametrize(("tokens", "expected"), [(999.9, False), (1000.0, True), (1999.9, True), (2000.0, False)])
def test_a_prompt_of_a_length(tokens: float, expected: bool) -> None:
    """From so many tokens on, and below so many."""
    rule = RouteRule("r", "m", prompt_tokens_from=1000, prompt_tokens_below=2000)

    assert expected is rule.matches(traits(tokens))


@pytest.mark.parametrize(("max_tokens", "expected"), [(None, False), (99, False), (100, True)])
def test_an_answer_of_a_length(max_tokens: int | None, expected: bool) -> None:
    """The caller's limit counts; without one the request does not ask for a long answer."""
    assert expected is RouteRule("r", "m", max_tokens_from=100).matches(traits(max_tokens=max_tokens))


def test_all_that_is_asked_for_has_to_be_there() -> None:
    rule = RouteRule("r", "m", asks=frozenset({"images", "tools"}))

    assert not rule.matches(traits(asks=frozenset({"images"})))
    assert rule.matches(traits(asks=frozenset({"images", "tools", "reasoning"})))


def test_a_team_of_those_that_are_named() -> None:
    rule = RouteRule("r", "m", teams=frozenset({"research"}))

    assert rule.matches(traits(team="research"))
    assert not rule.matches(traits(team="sales"))
    assert not rule.matches(traits())


def test_everything_at_once() -> None:
    """One that fails is enough."""
    rule = RouteRule("r", "m", prompt_tokens_from=10, asks=frozenset({"tools"}), teams=frozenset({"a"}))

    assert rule.matches(traits(10, asks=frozenset({"tools"}), team="a"))
    assert not rule.matches(traits(9, asks=frozenset({"tools"}), team="a"))
    assert not rule.matches(traits(10, team="a"))
    assert not rule.matches(traits(10, asks=frozenset({"tools"}), team="b"))
