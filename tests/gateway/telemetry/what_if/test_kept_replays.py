"""Facts about the replays that a runner keeps. No job begins to run here."""

import dataclasses

import pytest

from gateway.telemetry.what_if.runner import MAX_KEPT_BYTES, MAX_REPLAYS, BusyError, WhatIfRunner
from tests.gateway.telemetry.what_if.examples import a_job


def test_the_latest_replays_are_kept_and_found() -> None:
    """The first five of 25 replays are forgotten."""
    names = iter(f"r{number}" for number in range(25))
    runner = WhatIfRunner(lambda: 7.0, new_id=lambda: next(names))
    for _ in range(25):
        runner.start(a_job(None, trace="{}"))
        runner.cancel()

    assert 20 == MAX_REPLAYS
    assert [f"r{number}" for number in range(24, 4, -1)] == [replay.id for replay in runner]
    assert (None, 7.0) == (runner.find("r4"), next(iter(runner)).started_at)


def test_large_results_displace_earlier_ones() -> None:
    """Three results of 3 MiB are more than 8 MiB."""
    runner = WhatIfRunner(lambda: 0.0)
    for _ in range(3):
        replay = runner.start(a_job(None, trace="{}"))
        replay.result_bytes = 3 * 2**20
        runner.cancel()
    runner.start(a_job(None, trace="{}"))

    assert 8 * 2**20 == MAX_KEPT_BYTES
    assert [0, 3 * 2**20, 3 * 2**20] == [replay.result_bytes for replay in runner]


def test_an_uploaded_trace_is_not_kept_after_the_end() -> None:
    runner = WhatIfRunner(lambda: 0.0)
    job = a_job(None, trace="{}" * 1000)
    replay = runner.start(job)
    with pytest.raises(BusyError):
        runner.start(job)
    runner.cancel()

    assert dataclasses.replace(job, trace="") == replay.job
