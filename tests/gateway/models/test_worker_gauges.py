"""Gauges of a model's workers."""

import pytest

from cache_index import WorkerId
from gateway.backends.engine_metrics import EngineReading, Observation
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model
from tests.routing.examples import a_request, book


def test_readings_are_the_state_of_each_worker() -> None:
    """The state that the fleet has; nothing is counted a second time."""
    first, second = Answers(), Answers()
    model = a_model(first, second)
    second.connections_open = 3
    model.fleet.set_up(WorkerId("b"), up=False)
    book(model.fleet, a_request("abcd"), 0.0)
    a, b = model.readings(0.0)

    assert {
        "up": 1.0,
        "asleep": 0.0,
        "draining": 0.0,
        "breaker_open": 0.0,
        "in_flight": 1.0,
        "backlog_seconds": pytest.approx(0.074, abs=0.01),
        "prefill_tokens_per_second": 1000.0,
        "ttft_error_ratio": 0.0,
        "ttft_bias_ratio": 0.0,
        "index_blocks": 4.0,
        "kv_events_live": 0.0,
        "hit_accuracy_ratio": 1.0,
        "hit_alarm": 0.0,
        "connections": 0.0,
    } == a.values
    assert ("a", "b") == (a.worker, b.worker)
    assert (0.0, 0.0, 0.0, 3.0) == tuple(b.values[n] for n in ("up", "in_flight", "index_blocks", "connections"))


def test_a_reading_of_an_engine_is_shown_with_its_age() -> None:
    """A stale one shows its age alone; a worker without one shows nothing."""
    model = a_model(Answers(), Answers())
    reading = EngineReading(running=3.0, waiting=2.0, kv_usage=0.25)
    model.observed(WorkerId("a"), Observation(reading, read_at=100.0, kept_s=20.0))

    def shown(now: float) -> list[dict[str, float]]:
        names = ("engine_running", "engine_waiting", "engine_kv_usage_ratio", "reading_age_seconds")
        return [{n: r.values[n] for n in names if n in r.values} for r in model.readings(now)]

    assert [reading, None] == [r.reported for r in model.readings(120.0)]
    assert [None, None] == [r.reported for r in model.readings(120.1)]
    fresh = {"engine_running": 3.0, "engine_waiting": 2.0, "engine_kv_usage_ratio": 0.25}
    assert [fresh | {"reading_age_seconds": 20.0}, {}] == shown(120.0)
    assert [{"reading_age_seconds": 21.0}, {}] == shown(121.0)


def test_a_gauge_that_an_engine_does_not_report_is_left_out() -> None:
    """A zero would look like a measurement."""
    model = a_model(Answers())
    model.observed(WorkerId("a"), Observation(EngineReading(running=0.0), read_at=100.0, kept_s=20.0))
    (a,) = model.readings(100.0)

    assert 0.0 == a.values["engine_running"]
    assert not {"engine_waiting", "engine_kv_usage_ratio"} & a.values.keys()


def test_the_load_of_routing_is_the_gateways_own_account() -> None:
    """Readings of engines lag behind; the gateway knows what it sent."""
    model = a_model(Answers())
    model.observed(WorkerId("a"), Observation(EngineReading(running=50.0), read_at=0.0, kept_s=20.0))
    (a,) = model.readings(0.0)

    assert (0.0, 0.0) == (a.values["in_flight"], a.values["backlog_seconds"])
