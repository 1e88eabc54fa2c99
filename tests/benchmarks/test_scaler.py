import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scaler import TOLERANCE, Scaler, Trigger

BY_REQUESTS = Trigger("requests", "sum(requests)", 32)
BY_CACHE = Trigger("kv-usage", "sum(usage)", 0.8)
ENGINES = Scaler("engines", 1, 8, (BY_REQUESTS, BY_CACHE))


def scaled_object(**trigger: Any) -> dict[str, Any]:
    prometheus = {
        "type": "prometheus",
        "name": "requests",
        "metricType": "AverageValue",
        "metadata": {"query": "sum(requests)", "threshold": "32"},
        **trigger,
    }
    cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
    return {
        "metadata": {"name": "engines"},
        "spec": {"minReplicaCount": 1, "maxReplicaCount": 8, "triggers": [prometheus, cpu]},
    }


def test_a_scaled_object_is_read() -> None:
    """Without its trigger for the processor."""
    assert Scaler("engines", 1, 8, [BY_REQUESTS]) == Scaler.of(scaled_object())


def test_what_is_not_an_average_is_refused() -> None:
    """Another rule would count it."""
    with pytest.raises(ValueError, match="AverageValue"):
        Scaler.of(scaled_object(metricType="Value"))


@pytest.mark.parametrize(
    ("replicas", "value", "wanted"),
    [
        (1, 100.0, 4),  # 3.1 are too few
        (4, 128.0, 4),
        (4, 140.0, 4),  # 9 % more than four should have
        (4, 141.0, 5),  # 10.2 %
        (4, 116.0, 4),  # 9 % less
        (4, 96.0, 3),
        (4, 0.0, 0),
    ],
)
def test_as_many_are_wanted_as_bring_the_average_to_its_target(replicas: int, value: float, wanted: int) -> None:
    """Within a tenth, none is started or stopped."""
    assert wanted == BY_REQUESTS.wants(replicas, value)


def test_the_trigger_that_wants_most_decides() -> None:
    """Three for the requests, five for the cache."""
    assert 5 == ENGINES.replicas(1, {"requests": 90.0, "kv-usage": 3.9})


def test_there_are_never_fewer_or_more_than_allowed() -> None:
    assert 1 == ENGINES.replicas(4, {"requests": 0.0, "kv-usage": 0.0})
    assert 8 == ENGINES.replicas(4, {"requests": 5_000.0, "kv-usage": 0.0})


def test_nothing_is_taken_away_while_an_answer_is_missing() -> None:
    """It may be the one that wants most; more may still come."""
    assert 4 == ENGINES.replicas(4, {"requests": 0.0, "kv-usage": None})
    assert 4 == ENGINES.replicas(4, {})
    assert 6 == ENGINES.replicas(4, {"requests": 180.0, "kv-usage": None})


@given(replicas=st.integers(1, 100), value=st.floats(0, 1e6), target=st.floats(0.1, 1e3))
def test_it_comes_to_rest_at_once(replicas: int, value: float, target: float) -> None:
    """Where as many are as were wanted, no others are: one load does not make replicas come and go."""
    trigger = Trigger("any", "any", target)
    wanted = max(1, trigger.wants(replicas, value))

    assert wanted == max(1, trigger.wants(wanted, value))
    assert abs(value / (target * replicas) - 1) <= TOLERANCE or wanted == max(1, math.ceil(value / target))
