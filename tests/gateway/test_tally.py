from gateway.sse import Usage
from gateway.tally import Histogram, Tally
from tests.gateway.examples import an_exchange


def test_a_bucket_counts_what_is_not_above_its_bound() -> None:
    """Prometheus's buckets are cumulative, and a value on a bound belongs below it."""
    histogram = Histogram((1, 2.5))
    for value in (0.5, 1, 2, 2.5, 3):
        histogram.observe(value)

    assert [("1.0", 2), ("2.5", 4), ("+Inf", 5)] == histogram.cumulative()
    assert 9.0 == histogram.total


def test_a_failed_request_counts_by_its_fault_and_not_in_the_times() -> None:
    """What it took until it failed says nothing of the service."""
    tally = Tally()
    tally.observe(an_exchange(status=503, error="NoWorker"), 101.0)

    assert {503: 1} == tally.requests
    assert {"NoWorker": 1} == tally.errors
    assert 0.0 == tally.histograms["e2e_seconds"].total


def test_time_per_output_token_leaves_the_first_token_out() -> None:
    """11 tokens, the first at 100.5 and the last at 101.5: 100 ms for each of the ten others."""
    tally = Tally()
    tally.observe(an_exchange(status=200, first_byte=100.5, usage=Usage(64, 11, 48)), 101.5)

    assert 0.1 == tally.histograms["tpot_seconds"].total
    assert {"prompt": 64, "cached": 48, "predicted": 0, "completion": 11} == tally.tokens
