from typing import Any

import pytest

from benchmarks.scenarios.load_test import Measured, Wanted


def entry(kind: str, times_ms: dict[int, int], per_s: dict[int, int] | None = None) -> dict[str, Any]:
    counts = per_s or {1_000: sum(times_ms.values())}
    return {
        "method": kind,
        "num_requests": sum(times_ms.values()),
        "num_failures": 0,
        "start_time": 1_000.7,
        "total_response_time": sum(time_ms * count for time_ms, count in times_ms.items()),
        "response_times": {str(time_ms): count for time_ms, count in times_ms.items()},
        "num_reqs_per_sec": {str(second): count for second, count in counts.items()},
        "num_fail_per_sec": {},
    }


def entries(per_s: dict[int, int]) -> list[dict[str, Any]]:
    whole = entry("POST", {1_000: 90, 9_000: 10}, per_s)
    return [whole, entry("TTFT", {20: 50, 300: 45, 4_000: 5}), entry("TPOT", {12: 50, 14: 50})]


def test_percentiles_come_from_the_times_that_locust_counted() -> None:
    found = Measured.of(entries({1_000 + second: 3 for second in range(40)}), ramp_s=10.0, cores=0.25)

    assert (1.0, 9.0) == (found.latency_p50_s, found.latency_p95_s)
    assert (0.02, 0.3, 0.3) == (found.ttft_p50_s, found.ttft_p90_s, found.ttft_p95_s)
    assert pytest.approx(0.013) == found.tpot_mean_s
    assert (100, 0, 0.25) == (found.requests, found.failures, found.cores)


def test_rates_are_those_while_all_users_are_there() -> None:
    """One a second while they come, then three with a burst of ten seconds; the last second is not whole."""
    per_s = dict.fromkeys(range(1000, 1011), 1) | dict.fromkeys(range(1011, 1050), 3)
    burst = dict.fromkeys(range(1020, 1030), 5)
    found = Measured.of(entries(per_s | burst | {1_050: 1}), ramp_s=10.0, cores=0.0)

    assert 5.0 == found.most_per_s
    assert pytest.approx(60 * (29 * 3 + 10 * 5) / 39) == found.requests_per_min


def test_seconds_without_an_answer_count() -> None:
    """Locust leaves them out."""
    found = Measured.of(entries(dict.fromkeys(range(1000, 1041, 2), 2)), ramp_s=0.0, cores=0.0)

    assert 1.0 == found.most_per_s


def test_failures_are_no_answers() -> None:
    """However fast they come."""
    reported = entries({1_000 + second: 9 for second in range(41)})
    reported[0] |= {"num_failures": 280, "num_fail_per_sec": {str(1_000 + second): 7 for second in range(41)}}
    found = Measured.of(reported, ramp_s=0.0, cores=0.0)

    assert (2.0, 120.0, 280) == (found.most_per_s, found.requests_per_min, found.failures)


def test_a_run_without_streams_or_time_is_an_error() -> None:
    with pytest.raises(ValueError, match="no streamed answer"):
        Measured.of(entries({1_000: 1})[:1], ramp_s=0.0, cores=0.0)
    with pytest.raises(ValueError, match="less than 10 s"):
        Measured.of(entries({1_000 + second: 1 for second in range(15)}), ramp_s=10.0, cores=0.0)


def test_all_users_are_there_after_the_ramp() -> None:
    assert 50.0 == Wanted("http://gateway", 1_000, 20.0, 240.0, ()).ramp_s
