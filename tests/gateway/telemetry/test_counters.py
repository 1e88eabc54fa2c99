from gateway.protocol.usage import Usage
from gateway.telemetry.counters import CountersByModel, CountersByTeam, Histogram, RequestCounters, TeamCounters
from tests.gateway.examples import an_ended_request


def test_a_bucket_counts_what_is_not_above_its_bound() -> None:
    """Prometheus's buckets are cumulative, and a value on a bound belongs below it."""
    histogram = Histogram((1, 2.5))
    for value in (0.5, 1, 2, 2.5, 3):
        histogram.observe(value)

    assert [("1.0", 2), ("2.5", 4), ("+Inf", 5)] == histogram.cumulative()
    assert 9.0 == histogram.total


def test_a_failed_request_counts_by_its_fault_and_not_in_the_times() -> None:
    """What it took until it failed says nothing of the service."""
    counters = RequestCounters()
    counters.observe(an_ended_request(101.0, status=503, error="NoWorker"))

    assert {503: 1} == counters.requests
    assert {"NoWorker": 1} == counters.errors
    assert 0.0 == counters.e2e.total


def test_time_per_output_token_leaves_the_first_token_out() -> None:
    """11 tokens, the first at 100.5 and the last at 101.5: 100 ms for each of the ten others."""
    counters = RequestCounters()
    counters.observe(an_ended_request(101.5, status=200, first_byte=100.5, usage=Usage(64, 11, 48)))

    assert 0.1 == counters.tpot.total
    assert (64, 48, 11) == (counters.prompt_tokens, counters.cached_tokens, counters.completion_tokens)


def test_predicted_tokens_count_if_the_engine_reports_cached_tokens() -> None:
    """Else there is nothing to compare them with."""
    counters = RequestCounters()
    for usage in (Usage(64, 11, 48), Usage(64, 11, None), None):
        counters.observe(an_ended_request(101.0, status=200, usage=usage, hit_tokens=40.5))

    assert (128, 48, 40, 22) == (
        counters.prompt_tokens,
        counters.cached_tokens,
        counters.predicted_tokens,
        counters.completion_tokens,
    )


def test_decisions_are_counted_with_what_they_found() -> None:
    """Only requests with a decision count."""
    counters = RequestCounters()
    for reason in ("hit", "hit", "cold"):
        counters.observe(an_ended_request(101.0, status=200, strategy="prefix_aware", reason=reason, hit_tokens=48.0))
    counters.observe(an_ended_request(101.0, status=404, error="UnknownModel"))

    assert {("prefix_aware", "hit"): 2, ("prefix_aware", "cold"): 1} == counters.decisions
    assert 144.0 == counters.predicted_cached.total


def test_each_model_has_a_tally_and_what_is_of_none_shares_one() -> None:
    """A series begins with a model's first request."""
    counts = CountersByModel()
    counts.observe([an_ended_request(101.0, model=name, status=200) for name in ("tiny", "big", None, "tiny")])

    assert {"tiny": {200: 2}, "big": {200: 1}, "unknown": {200: 1}} == {
        name: own.requests for name, own in counts.counters.items()
    }


def test_only_what_a_team_is_behind_counts_for_one() -> None:
    counts = CountersByTeam()
    counts.observe([an_ended_request(101.0, team=team, status=200) for team in ("blue", None, "red", "blue")])

    assert {"blue": {200: 2}, "red": {200: 1}} == {name: own.requests for name, own in counts.counters.items()}


def test_prompts_are_counted_by_where_they_were_computed() -> None:
    """Only models with prefill workers have them."""
    counters = RequestCounters()
    for where in ("remote", "here", "remote", None):
        counters.observe(an_ended_request(101.0, status=200, prefill=where))

    assert {"remote": 2, "here": 1} == counters.prefills


def test_a_team_is_tallied_by_who_answered_and_what_turned_it_away() -> None:
    counters = TeamCounters()
    counters.observe(an_ended_request(101.0, status=200, usage=Usage(64, 11, None), cost_usd=0.5, saved_usd=0.25))
    counters.observe(an_ended_request(101.0, status=200, usage=Usage(6, 1, 5), cost_usd=2.0, fell_back=True))
    counters.observe(an_ended_request(101.0, status=429, refused_by="key/concurrent"))

    assert ({200: 2, 429: 1}, {"key/concurrent": 1}) == (counters.requests, counters.refused)
    assert (70, 5, 12) == (counters.prompt_tokens, counters.cached_tokens, counters.completion_tokens)
    assert (0.5, 2.0, 0.25) == (counters.workers_usd, counters.fallback_usd, counters.saved_usd)
