import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tenancy.ledger.price import Price


def test_a_list_of_prices_is_per_million_tokens() -> None:
    """800 computed at $3, 200 cached at $0.30, 100 generated at $15."""
    price = Price.per_million(input_usd=3.0, cached_input_usd=0.3, output_usd=15.0)

    assert pytest.approx(0.0024 + 0.00006 + 0.0015) == price.cost_usd(1000, 200, 100)


def test_cached_tokens_save_the_difference() -> None:
    price = Price.per_million(input_usd=3.0, cached_input_usd=0.3, output_usd=15.0)

    assert pytest.approx(0.00054) == price.saved_usd(200)


def test_without_a_price_of_their_own_cached_tokens_cost_what_others_do() -> None:
    price = Price.per_million(input_usd=2.0, cached_input_usd=None, output_usd=0.0)

    assert pytest.approx(0.002) == price.cost_usd(1000, 400, 50)
    assert 0.0 == price.saved_usd(400)


def test_a_model_without_a_price_costs_nothing() -> None:
    assert (0.0, 0.0) == (Price().cost_usd(1000, 100, 100), Price().saved_usd(100))


def test_an_hour_of_a_worker_is_paid_by_its_time() -> None:
    """$3.60 an hour is a tenth of a cent a second: 2 s of prefill and 1 s of generating come to $0.003."""
    price = Price.per_gpu_hour(3.6, prefill_s_per_token=1 / 5000, decode_s_per_token=1 / 1000)

    assert pytest.approx(0.003) == price.cost_usd(12_000, 2_000, 1_000)


def test_a_worker_that_is_busy_for_an_hour_earns_its_price() -> None:
    """Half of it with prompts, half with answers."""
    price = Price.per_gpu_hour(2.5, prefill_s_per_token=0.0002, decode_s_per_token=0.001)

    assert pytest.approx(2.5) == price.cost_usd(1800 / 0.0002, 0, 1800 / 0.001)


@pytest.mark.parametrize(
    ("price", "is_set"), [(Price(), False), (Price(1e-6), True), (Price(0, 1e-6), True), (Price(0, 0, 1e-6), True)]
)
def test_a_price_is_set_if_any_token_costs_something(price: Price, is_set: bool) -> None:
    assert is_set is price.is_set


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_cost_and_savings_add_up_to_the_price_without_a_cache(computed: int, cached: int, out: int) -> None:
    price = Price.per_million(input_usd=2.5, cached_input_usd=0.25, output_usd=10.0)
    prompt = computed + cached

    paid = price.cost_usd(prompt, cached, out) + price.saved_usd(cached)

    assert pytest.approx(price.cost_usd(prompt, 0, out)) == paid
