"""The price of a model's tokens."""

import pytest

from gateway.tenancy.ledger.price import Price
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model


def test_a_model_paid_by_the_hour_costs_the_time_that_its_workers_take() -> None:
    """3,600 dollars an hour are a dollar a second: at 1,000 tokens a second a prompt token costs 0.001."""
    model = a_model(gpu_hour_usd=3600.0)
    prefill_s, decode_s = model.fleet.token_times()
    price = model.pricing.current

    assert (prefill_s, 0.0, decode_s) == pytest.approx((price.input_usd, price.cached_input_usd, price.output_usd))
    assert price.cost_usd(10, 0, 5) == pytest.approx(model.pricing.cost_usd(10, 0, 5))


def test_a_fixed_price_is_called_directly() -> None:
    """Limits need it for every request."""
    price = Price(1.0, 0.5, 2.0)

    assert price.cost_usd == a_model(price=price).pricing.cost_usd


def test_the_most_expensive_backend_bounds_the_cost() -> None:
    """A fallback may cost more than the workers, or less."""
    cheap, dear = Price(0.1, 0.1, 0.1), Price(9.0, 9.0, 9.0)
    to_dear = a_model(price=cheap, fallback=Answers(), fallback_price=dear)
    to_cheap = a_model(price=dear, fallback=Answers(), fallback_price=cheap)

    assert [9.0, 9.0] == [model.pricing.max_usd(1, 0, 0) for model in (to_dear, to_cheap)]
