import pytest

from routing.learning.load_rates import LoadRates, TierPrices
from routing.loads import NO_LOADS, Loads

COMPUTED_S = 0.001
"""Seconds to compute a token."""


@pytest.mark.parametrize(
    ("loads", "load_s"),
    [
        (NO_LOADS, 0.0),
        (Loads(cpu=400.0), 0.1),
        (Loads(disk=400.0), 0.3),
        (Loads(shared=400.0), 0.2),
        (Loads(400.0, 400.0, 400.0), 0.6),
    ],
)
def test_each_tier_has_its_price_until_it_is_measured(loads: Loads, load_s: float) -> None:
    """A quarter of computing from host memory, three quarters from disks, half from a shared store."""
    assert pytest.approx(load_s) == LoadRates(TierPrices()).load_s(loads, COMPUTED_S)


def test_prices_can_be_set() -> None:
    """A fast link makes host memory nearly as good as the GPU."""
    assert pytest.approx(0.02) == LoadRates(TierPrices(cpu=0.05)).load_s(Loads(cpu=400.0), COMPUTED_S)


@pytest.mark.parametrize("price", [0.01, 0.25, 1.0])
def test_a_few_loads_replace_a_wrong_price(price: float) -> None:
    """50,000 tokens at 20,000 tokens per second, where computing takes 1,000 per second."""
    rates = LoadRates(TierPrices(cpu=price))
    for _ in range(12):
        rates.learn(Loads(cpu=50_000.0), 2.5, COMPUTED_S)

    assert pytest.approx(2.5, rel=0.15) == rates.load_s(Loads(cpu=50_000.0), COMPUTED_S)
    assert pytest.approx(0.75) == rates.load_s(Loads(disk=1000.0), COMPUTED_S)


def test_measurements_follow_a_link_that_slows_down() -> None:
    """From 20,000 to 5,000 tokens per second."""
    rates = LoadRates(TierPrices())
    for took_s in [0.5] * 100 + [2.0] * 60:
        rates.learn(Loads(cpu=10_000.0), took_s, COMPUTED_S)

    assert pytest.approx(2.0, rel=0.1) == rates.load_s(Loads(cpu=10_000.0), COMPUTED_S)


def test_several_tiers_share_the_time_as_predicted() -> None:
    """1 s from host memory and 3 s from a disk were predicted, and both took half of that."""
    rates = LoadRates(TierPrices())
    for _ in range(100):
        rates.learn(Loads(cpu=4000.0, disk=4000.0), 2.0, COMPUTED_S)

    assert pytest.approx(0.5, rel=0.02) == rates.load_s(Loads(cpu=4000.0), COMPUTED_S)
    assert pytest.approx(1.5, rel=0.02) == rates.load_s(Loads(disk=4000.0), COMPUTED_S)


def test_a_load_never_takes_less_than_nothing() -> None:
    """A prefill may end sooner than its computed tokens alone would let expect. Later loads are learned all the same,
    also of tiers that seemed to take no time.
    """
    rates = LoadRates(TierPrices())
    for _ in range(50):
        rates.learn(Loads(cpu=10_000.0, disk=10_000.0), -1.0, COMPUTED_S)

    assert 0.0 == rates.load_s(Loads(cpu=10_000.0, disk=10_000.0), COMPUTED_S)

    for _ in range(200):
        rates.learn(Loads(cpu=10_000.0, disk=10_000.0), 1.0, COMPUTED_S)

    assert pytest.approx(1.0, rel=0.01) == rates.load_s(Loads(cpu=10_000.0, disk=10_000.0), COMPUTED_S)


class TestPulls:
    def test_a_pull_takes_its_latency_and_its_tokens(self) -> None:
        """30 ms, and 400 tokens at a quarter of the time to compute them."""
        assert pytest.approx(0.03 + 400 * 0.25 * COMPUTED_S) == LoadRates(TierPrices()).load_s(
            Loads(peer=400.0), COMPUTED_S
        )

    def test_what_was_pulled_shows_the_rate_without_the_latency(self) -> None:
        """10,000 tokens take 130 ms, of which 30 ms are the latency: 10 us per token."""
        rates = LoadRates(TierPrices())
        for _ in range(200):
            rates.learn(Loads(peer=10_000.0), 0.13, COMPUTED_S)

        assert pytest.approx(0.13, rel=0.01) == rates.load_s(Loads(peer=10_000.0), COMPUTED_S)
        assert pytest.approx(0.23, rel=0.01) == rates.load_s(Loads(peer=20_000.0), COMPUTED_S)


class TestSpeeds:
    def test_a_tier_has_a_speed_once_it_was_measured(self) -> None:
        rates = LoadRates(TierPrices())
        assert {} == rates.tokens_per_s(COMPUTED_S)
        for _ in range(500):
            rates.learn(Loads(disk=10_000.0), 0.5, COMPUTED_S)

        assert {"disk": pytest.approx(20_000.0, rel=0.01)} == rates.tokens_per_s(COMPUTED_S)

    def test_loads_that_take_no_time_have_a_finite_speed(self) -> None:
        rates = LoadRates(TierPrices(cpu=0.0))
        rates.learn(Loads(cpu=10.0), 0.0, COMPUTED_S)

        assert {"cpu": pytest.approx(1e9)} == rates.tokens_per_s(COMPUTED_S)
