"""Weights of routes that an operator set."""

import math

import msgspec
import pytest

from gateway.tenancy.teams.route_weights import RouteWeights, is_usable

SET = RouteWeights("chat", {"old": 90.0, "new": 10.0}, {"old": 95.0, "new": 5.0})


def test_weights_apply_while_the_settings_are_those_for_which_they_were_set() -> None:
    assert SET.applies_to({"new": 5.0, "old": 95.0})
    assert not SET.applies_to({"old": 95.0, "new": 6.0})
    assert not SET.applies_to({"old": 95.0})
    assert not SET.applies_to({"old": 95.0, "new": 5.0, "third": 1.0})


def test_weights_without_one_of_the_models_do_not_apply() -> None:
    """Only another version of the gateway would have written them."""
    assert not RouteWeights("chat", {"old": 1.0}, SET.configured).applies_to(SET.configured)
    assert not RouteWeights("chat", {"old": 0.0, "new": 0.0}, SET.configured).applies_to(SET.configured)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [({"a": 1.0, "b": 0.0}, True), ({"a": 0.0}, False), ({"a": 2.0, "b": -1.0}, False), ({"a": math.inf}, False)],
)
def test_usable_weights_are_finite_and_not_all_zero(weights: dict[str, float], expected: bool) -> None:
    assert expected == is_usable(weights)


def test_a_row_of_a_later_version_is_read() -> None:
    row = b'{"route":"chat","weights":{"a":1.0},"configured":{"a":2.0},"reason":"x"}'

    assert RouteWeights("chat", {"a": 1.0}, {"a": 2.0}) == msgspec.json.decode(row, type=RouteWeights)
