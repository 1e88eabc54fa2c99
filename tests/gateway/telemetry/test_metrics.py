"""Prometheus metrics."""

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from cache_index import WorkerId
from gateway.backends.engine_metrics import EngineReading, Observation
from gateway.models.model import Model
from gateway.protocol.usage import Usage
from gateway.telemetry.metrics import Metrics, StateCollector
from tests.fakes.backends import Answers
from tests.gateway.examples import Clock, a_model, an_ended_request
from tests.routing.examples import ABORTED, a_request, an_index, book


def samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name by their label values, in the order of the names of the labels; zeros left out."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
        if sample.name == name and sample.value
    }


def with_state(model: Model, *, clock: Clock | None = None) -> Metrics:
    metrics = Metrics()
    metrics.register(StateCollector([model], an_index(), max_index_bytes=1000, clock=clock or Clock(0.0)))
    return metrics


ANSWERED = {
    "model": "tiny",
    "strategy": "prefix_aware",
    "reason": "hit",
    "streams": True,
    "backend": "a",
    "hit_blocks": 3,
    "hit_tokens": 40.5,
    "attempts": 1,
    "status": 200,
    "first_byte": 100.5,
    "usage": Usage(64, 11, 48),
}


def test_the_families_are_these() -> None:
    """Dashboards and alerts rely on names, types and help; there is no other family, so no `_created` either."""
    metrics = with_state(a_model(Answers()))
    metrics.observe([an_ended_request(101.0, **ANSWERED)])
    families = text_string_to_metric_families(metrics.exposition().decode())

    assert [
        ("counter", "warmgate_requests"),
        ("counter", "warmgate_errors"),
        ("counter", "warmgate_decisions"),
        ("counter", "warmgate_retries"),
        ("counter", "warmgate_streams_continued"),
        ("counter", "warmgate_prefills"),
        ("counter", "warmgate_fallbacks"),
        ("counter", "warmgate_tokens"),
        ("histogram", "warmgate_time_to_first_token_seconds"),
        ("histogram", "warmgate_time_per_output_token_seconds"),
        ("histogram", "warmgate_request_duration_seconds"),
        ("histogram", "warmgate_predicted_cached_tokens"),
        ("gauge", "warmgate_index_bytes"),
        ("gauge", "warmgate_index_max_bytes"),
        ("gauge", "warmgate_requests_in_flight"),
        ("gauge", "warmgate_requests_waiting"),
        ("gauge", "warmgate_oldest_wait_seconds"),
        ("gauge", "warmgate_requests_without_worker"),
        ("gauge", "warmgate_team_requests_waiting"),
        ("counter", "warmgate_requests_by_session"),
        ("gauge", "warmgate_policy_configured"),
        ("gauge", "warmgate_policy_effective"),
        ("gauge", "warmgate_worker_role"),
        ("gauge", "warmgate_worker_up"),
        ("gauge", "warmgate_worker_asleep"),
        ("gauge", "warmgate_worker_draining"),
        ("gauge", "warmgate_worker_breaker_open"),
        ("gauge", "warmgate_worker_in_flight"),
        ("gauge", "warmgate_worker_backlog_seconds"),
        ("gauge", "warmgate_worker_prefill_tokens_per_second"),
        ("gauge", "warmgate_worker_ttft_error_ratio"),
        ("gauge", "warmgate_worker_ttft_bias_ratio"),
        ("gauge", "warmgate_worker_index_blocks"),
        ("gauge", "warmgate_worker_kv_events_live"),
        ("gauge", "warmgate_worker_hit_accuracy_ratio"),
        ("gauge", "warmgate_worker_hit_alarm"),
        ("gauge", "warmgate_worker_connections"),
        ("gauge", "warmgate_worker_engine_running"),
        ("gauge", "warmgate_worker_engine_waiting"),
        ("gauge", "warmgate_worker_engine_kv_usage_ratio"),
        ("gauge", "warmgate_worker_reading_age_seconds"),
    ] == [(family.type, family.name) for family in families if family.documentation.endswith(".")]
    assert b"_created" not in metrics.exposition()


def test_requests_are_counted_by_how_their_session_was_recognized() -> None:
    model = a_model(Answers())
    for session in ("s", "s", None):
        model.fleet.sessions.begins(a_request(session=session))

    assert {("tiny", "named"): 2.0, ("tiny", "none"): 1.0} == samples(
        with_state(model), "warmgate_requests_by_session_total"
    )


def test_an_answered_stream_is_counted_and_timed() -> None:
    """0.5 s to the first of 11 tokens, then 0.1 s for each."""
    metrics = Metrics()
    metrics.observe([an_ended_request(101.5, **ANSWERED)])

    assert {("tiny", "200"): 1.0} == samples(metrics, "warmgate_requests_total")
    assert {("tiny", "hit", "prefix_aware"): 1.0} == samples(metrics, "warmgate_decisions_total")
    assert {
        ("cached", "tiny"): 48.0,
        ("completion", "tiny"): 11.0,
        ("predicted", "tiny"): 40.0,
        ("prompt", "tiny"): 64.0,
    } == samples(metrics, "warmgate_tokens_total")
    assert {("tiny",): 0.5} == samples(metrics, "warmgate_time_to_first_token_seconds_sum")
    assert {("tiny",): pytest.approx(0.1)} == samples(metrics, "warmgate_time_per_output_token_seconds_sum")
    assert {("tiny",): 1.5} == samples(metrics, "warmgate_request_duration_seconds_sum")
    assert {("tiny",): 40.5} == samples(metrics, "warmgate_predicted_cached_tokens_sum")
    for empty in ("errors", "retries", "streams_continued", "fallbacks"):
        assert {} == samples(metrics, f"warmgate_{empty}_total")


@pytest.mark.parametrize("usage", [None, Usage(64, 0), Usage(64, 1)])
def test_an_answer_of_one_token_has_no_time_per_token(usage: Usage | None) -> None:
    """A request without known usage has none either."""
    metrics = Metrics()
    metrics.observe([an_ended_request(101.5, **ANSWERED | {"usage": usage})])

    assert {} == samples(metrics, "warmgate_time_per_output_token_seconds_count")
    assert {("tiny",): 1.0} == samples(metrics, "warmgate_time_to_first_token_seconds_count")


def test_an_answer_that_does_not_stream_has_no_first_byte() -> None:
    """It counts for the whole time only."""
    metrics = Metrics()
    metrics.observe([an_ended_request(101.5, **ANSWERED | {"streams": False, "first_byte": None})])

    assert {} == samples(metrics, "warmgate_time_to_first_token_seconds_count")
    assert {("tiny",): 1.0} == samples(metrics, "warmgate_request_duration_seconds_count")


def test_an_error_is_counted_by_its_name_and_not_timed() -> None:
    """Fast failures would make the answers look fast."""
    metrics = Metrics()
    metrics.observe([an_ended_request(101.5, **ANSWERED | {"error": "ReplyBroken"})])

    assert {("ReplyBroken", "tiny"): 1.0} == samples(metrics, "warmgate_errors_total")
    for empty in ("time_to_first_token_seconds", "time_per_output_token_seconds", "request_duration_seconds"):
        assert {} == samples(metrics, f"warmgate_{empty}_count")
    assert {} == samples(metrics, "warmgate_tokens_total")


def test_attempts_beyond_the_first_are_retries() -> None:
    """Three attempts are two retries, and no attempt is no retry."""
    metrics = Metrics()
    for attempts in (0, 1, 3):
        metrics.observe([an_ended_request(101.0, **ANSWERED | {"attempts": attempts})])

    assert {("tiny",): 2.0} == samples(metrics, "warmgate_retries_total")


def test_a_fallback_is_counted() -> None:
    """The operator pays for it."""
    metrics = Metrics()
    metrics.observe([an_ended_request(101.0, **ANSWERED | {"fell_back": True})])

    assert {("tiny",): 1.0} == samples(metrics, "warmgate_fallbacks_total")


def test_requests_for_no_model_share_one_label() -> None:
    """What a client calls a model is nowhere, and there is no decision to be counted."""
    metrics = Metrics()
    for request_id in (b"r-one", b"r-two"):
        metrics.observe([an_ended_request(101.0, request_id=request_id, status=404, error="UnknownModel")])

    assert {("unknown", "404"): 2.0} == samples(metrics, "warmgate_requests_total")
    assert {("UnknownModel", "unknown"): 2.0} == samples(metrics, "warmgate_errors_total")
    assert {} == samples(metrics, "warmgate_decisions_total")
    for text in (b"r-one", b"r-two", b"/v1/"):
        assert text not in metrics.exposition()


def test_two_gateways_in_one_process_count_apart() -> None:
    """Each has a registry of its own."""
    first, second = Metrics(), Metrics()
    first.observe([an_ended_request(101.0, **ANSWERED)])

    assert {} == samples(second, "warmgate_requests_total")


def test_gauges_are_read_when_asked() -> None:
    """They follow the state, so they cannot drift away from it."""
    model = a_model(Answers(), Answers())
    metrics = with_state(model)
    booking = book(model.fleet, a_request("abc"), 0.0)
    model.in_flight = 1
    model.fleet.set_up(WorkerId("b"), up=False)

    assert {("tiny",): 1.0} == samples(metrics, "warmgate_requests_in_flight")
    assert {("tiny", "a"): 1.0} == samples(metrics, "warmgate_worker_in_flight")
    assert {("tiny", "a"): 1.0} == samples(metrics, "warmgate_worker_up")
    model.fleet.bookings.release(booking, ABORTED, 0.0)
    model.in_flight = 0
    assert {} == samples(metrics, "warmgate_requests_in_flight")
    assert {} == samples(metrics, "warmgate_worker_in_flight")


def test_reports_of_engines_are_beside_the_gateways_own_counts() -> None:
    """Reports are by worker, with their age; a worker without a report has no such series."""
    model = a_model(Answers(), Answers())
    model.fleet.set_asleep(WorkerId("b"), asleep=True)
    model.observed(WorkerId("a"), Observation(EngineReading(running=3.0, kv_usage=0.5), read_at=98.0, kept_s=20.0))
    metrics = with_state(model, clock=Clock(100.0))

    assert {("tiny", "a"): 3.0} == samples(metrics, "warmgate_worker_engine_running")
    assert {("tiny", "a"): 0.5} == samples(metrics, "warmgate_worker_engine_kv_usage_ratio")
    assert {("tiny", "a"): 2.0} == samples(metrics, "warmgate_worker_reading_age_seconds")
    assert {("tiny", "b"): 1.0} == samples(metrics, "warmgate_worker_asleep")
    assert b"warmgate_worker_engine_waiting{" not in metrics.exposition()
    assert b'warmgate_worker_reading_age_seconds{model="tiny",worker="b"}' not in metrics.exposition()


def test_what_settings_name_stands_beside_what_it_comes_to() -> None:
    """`kv_aware` before workers that tell nothing of their caches ranks as `prefix_aware`."""
    metrics = with_state(a_model(Answers(), strategy_name="kv_aware"))

    assert {("tiny", "kv_aware"): 1.0} == samples(metrics, "warmgate_policy_configured")
    assert {("tiny", "prefix_aware"): 1.0} == samples(metrics, "warmgate_policy_effective")


def test_the_index_shows_its_size_beside_its_limit() -> None:
    """In bytes."""
    metrics, index = Metrics(), an_index()
    metrics.register(StateCollector([], index, max_index_bytes=1000, clock=Clock()))
    index.record(WorkerId("a"), a_request("abc").prefix)

    assert {(): 1000.0} == samples(metrics, "warmgate_index_max_bytes")
    assert {(): float(index.size_bytes)} == samples(metrics, "warmgate_index_bytes")


def test_a_bucket_counts_all_values_up_to_its_bound() -> None:
    """The bound itself too; what is beyond the last one is in +Inf, sum and count alone."""
    metrics = Metrics()
    for seconds in (0.005, 0.006, 0.5, 1000.0):
        metrics.observe([an_ended_request(100.0 + seconds, **ANSWERED | {"first_byte": None})])
    buckets = {
        bound: count for (bound, _), count in samples(metrics, "warmgate_request_duration_seconds_bucket").items()
    }

    assert {"0.01": 2.0, "0.25": 2.0, "0.5": 3.0, "320.0": 3.0, "+Inf": 4.0}.items() <= buckets.items()
    assert {("tiny",): 4.0} == samples(metrics, "warmgate_request_duration_seconds_count")
    assert {("tiny",): pytest.approx(1000.511)} == samples(metrics, "warmgate_request_duration_seconds_sum")


def test_a_series_is_there_from_a_models_first_request() -> None:
    """A rate over a counter that begins at one would miss that one."""
    metrics = Metrics()
    metrics.observe([an_ended_request(101.0, model="tiny", status=404, error="UnknownModel")])

    for line in (b"retries_total", b"fallbacks_total", b"request_duration_seconds_count"):
        assert b"warmgate_" + line + b'{model="tiny"} 0.0\n' in metrics.exposition()


class ManyGauges(Collector):
    def collect(self) -> Iterator[Metric]:
        for number in range(300):
            yield GaugeMetricFamily(f"gauge_{number}", "A number.", number)


async def test_other_tasks_run_while_the_metrics_are_written() -> None:
    """300 families of 3 lines are written in pieces of at least 64 lines. The text is the same."""
    metrics = Metrics()
    metrics.register(ManyGauges())
    writing = asyncio.create_task(metrics.exposition_in_slices())
    turns = 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1

    assert 13 <= turns <= 17
    assert metrics.exposition() == writing.result()
    assert b"\ngauge_299 299.0\n" in writing.result()


async def test_a_collector_is_not_interrupted() -> None:
    """Otherwise a dict that it reads could change meanwhile."""
    values = dict.fromkeys(range(100), 0)

    class Values(Collector):
        def collect(self) -> Iterator[Metric]:
            for number in values:
                yield GaugeMetricFamily(f"gauge_{number}", "A number.", number)

    metrics = Metrics()
    metrics.register(Values())
    writing = asyncio.create_task(metrics.exposition_in_slices())
    await asyncio.sleep(0)
    values[100] = 0

    assert b"gauge_99 " in await writing
    assert b"gauge_100 " not in writing.result()
