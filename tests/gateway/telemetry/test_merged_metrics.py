"""The expositions of several processes become one: what is summed, and what is not."""

import re
from pathlib import Path

import pytest

from gateway.telemetry.merged_metrics import GAUGES, SEEN_BY_ALL, MergedMetrics

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"


def counter(name: str, value: float) -> str:
    return f"# HELP {name} Text.\n# TYPE {name} counter\n{name} {value}\n"


def gauge(name: str, value: float) -> str:
    return f"# HELP {name} Text.\n# TYPE {name} gauge\n{name} {value}\n"


def histogram(first: int, every: int, total: float) -> str:
    return (
        "# HELP lag_seconds Text.\n# TYPE lag_seconds histogram\n"
        f'lag_seconds_bucket{{le="0.1",model="tiny"}} {first}.0\n'
        f'lag_seconds_bucket{{le="+Inf",model="tiny"}} {every}.0\n'
        f'lag_seconds_count{{model="tiny"}} {every}.0\nlag_seconds_sum{{model="tiny"}} {total}\n'
    )


def test_counters_are_summed() -> None:
    merged = MergedMetrics().merged([counter("requests_total", 3), counter("requests_total", 4)])

    assert counter("requests_total", 7.0) == merged.decode()


def test_histograms_are_summed_by_bucket() -> None:
    merged = MergedMetrics().merged([histogram(1, 3, 0.5), histogram(2, 2, 0.25)])

    assert histogram(3, 5, 0.75) == merged.decode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("warmgate_requests_in_flight", 5.0),
        ("warmgate_worker_in_flight", 3.0),
        ("warmgate_worker_up", 2.0),
        ("warmgate_worker_hit_accuracy_ratio", 2.5),
        ("warmgate_unheard_of", 3.0),
    ],
)
def test_a_gauge_is_merged_by_its_meaning(name: str, value: float) -> None:
    """Own requests are summed; each process reports the whole load of a worker; a worker is up if all agree."""
    merged = MergedMetrics().merged([gauge(name, 2), gauge(name, 3)])

    assert gauge(name, value) == merged.decode()


def test_events_that_every_process_receives_are_counted_once() -> None:
    merged = MergedMetrics().merged([counter("warmgate_kv_events_total", 10), counter("warmgate_kv_events_total", 9)])

    assert counter("warmgate_kv_events_total", 10.0) == merged.decode()


def test_samples_of_one_process_are_kept() -> None:
    """Processes need not have the same labels."""
    first = '# HELP n_total Text.\n# TYPE n_total counter\nn_total{model="a\\"b"} 1.0\n'
    second = '# HELP n_total Text.\n# TYPE n_total counter\nn_total{model="c"} 2.0\n'

    merged = MergedMetrics().merged([first, second])

    assert [first.splitlines()[-1], second.splitlines()[-1]] == merged.decode().splitlines()[2:]


def test_counts_of_ended_processes_remain() -> None:
    metrics = MergedMetrics()
    metrics.end(counter("requests_total", 3) + gauge("warmgate_requests_in_flight", 1))
    metrics.end(counter("requests_total", 4) + counter("warmgate_kv_events_total", 8))

    merged = metrics.merged([counter("requests_total", 1) + counter("warmgate_kv_events_total", 2)])

    assert counter("requests_total", 8.0) + counter("warmgate_kv_events_total", 2.0) == merged.decode()


def test_counts_of_ended_processes_remain_without_any_other() -> None:
    metrics = MergedMetrics()
    metrics.end(counter("requests_total", 3))

    assert counter("requests_total", 3.0) == metrics.merged([]).decode()


def test_every_documented_metric_has_a_meaning() -> None:
    """A new gauge names its merge; a counter that all processes count is documented as one."""
    documented = dict(re.findall(r"^\| `((?:warmgate|process)_\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))
    gauges = {name for name, kind in documented.items() if kind == "gauge"}
    counters = {name.removesuffix("_total") for name, kind in documented.items() if kind == "counter"}

    assert gauges == set(GAUGES)
    assert counters >= SEEN_BY_ALL
