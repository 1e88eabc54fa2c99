"""How one limit stands."""

import math

import pytest

from gateway.quota.limit import Limit
from gateway.quota.meter import Meter
from tests.gateway.quota.examples import BUDGET, NOW, SLOTS, TOKENS


@pytest.mark.parametrize(("limit", "taken", "left"), [(TOKENS, 40.0, 20.0), (BUDGET, 0.25, 0.75), (SLOTS, 1.0, 1.0)])
def test_it_tells_what_will_be_left(limit: Limit, taken: float, left: float) -> None:
    """And nothing is taken before somebody puts what is granted in the place of the value."""
    meter = Meter("blue", limit, math.inf)

    assert meter.has_room(taken, NOW)
    assert left == pytest.approx(meter.left)
    assert 0.0 == meter.value
    meter.value = meter.granted
    assert meter.has_room(left, NOW)
    assert not meter.has_room(left + 0.5, NOW)


def test_a_bucket_tells_when_it_is_full_again() -> None:
    meter = Meter("blue", TOKENS, math.inf)

    assert meter.has_room(25.0, NOW)
    assert 2.5 == pytest.approx(meter.full_in_s)


def test_more_than_the_burst_passes_a_full_bucket_alone() -> None:
    """But never more than the limit gives in a minute."""
    meter = Meter("blue", TOKENS, math.inf)

    assert meter.has_room(600.0, NOW)
    assert 0.0 == meter.left
    assert not meter.has_room(601.0, NOW)
    meter.value = NOW + 0.1
    assert not meter.has_room(600.0, NOW)


def test_a_limit_of_its_kind_may_take_the_place_of_another() -> None:
    meter = Meter("blue", TOKENS, math.inf)
    meter.take(Limit(TOKENS.id, "rate", 60.0, burst=6.0))

    assert meter.has_room(6.0, NOW)
    assert 6.0 == pytest.approx(meter.full_in_s)
    meter.value = meter.granted
    assert not meter.has_room(1.0, NOW)
