from gateway.tally import Histogram, Tally, TeamTally
from gateway.usage import Usage
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


def test_prompts_are_counted_by_where_they_were_computed() -> None:
    """Of models only whose requests two workers may share."""
    tally = Tally()
    for where in ("remote", "here", "remote", None):
        tally.observe(an_exchange(status=200, prefill=where), 101.0)

    assert {"remote": 2, "here": 1} == tally.prefills


def test_a_team_is_tallied_by_who_answered_and_what_turned_it_away() -> None:
    tally = TeamTally()
    tally.observe(an_exchange(status=200, usage=Usage(64, 11, None), cost_usd=0.5, saved_usd=0.25))
    tally.observe(an_exchange(status=200, usage=Usage(6, 1, 5), cost_usd=2.0, fell_back=True))
    tally.observe(an_exchange(status=429, refused_by="key/concurrent"))

    assert ({200: 2, 429: 1}, {"key/concurrent": 1}) == (tally.requests, tally.refused)
    assert (70, 5, 12) == (tally.prompt_tokens, tally.cached_tokens, tally.completion_tokens)
    assert (0.5, 2.0, 0.25) == (tally.workers_usd, tally.fallback_usd, tally.saved_usd)
