from gateway.tenancy.ledger.measures import Measures, measures_of, nano, usd
from tests.gateway.tenancy.ledger.examples import an_entry


def test_a_record_has_its_measures() -> None:
    assert Measures(
        requests=1,
        prompt_tokens=100,
        cached_tokens=60,
        completion_tokens=20,
        cost_nano=1_000_000,
        saved_nano=400_000,
    ) == measures_of(an_entry())


def test_the_cost_of_fallback_is_part_of_the_cost() -> None:
    measures = measures_of(an_entry(fell_back=True, backend="bedrock"))

    assert (1, 1_000_000, 1_000_000) == (measures.fallbacks, measures.cost_nano, measures.fallback_cost_nano)


def test_each_ending_but_the_good_one_has_its_count() -> None:
    endings = [measures_of(an_entry(outcome=outcome)) for outcome in ("ok", "failed", "aborted", "lost")]

    assert [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)] == [(one.failed, one.aborted, one.lost) for one in endings]


def test_money_is_whole_nano_dollars() -> None:
    """0.1 + 0.2 is what it should be."""
    assert 300_000_000 == nano(0.1) + nano(0.2)
    assert 0.3 == usd(nano(0.1) + nano(0.2))
