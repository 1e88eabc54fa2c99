"""Jobs in processes of their own."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.telemetry.what_if.job import Change
from gateway.telemetry.what_if.runner import BusyError, WhatIfRunner
from tests.gateway.telemetry.what_if.examples import a_job, folder

pytestmark = pytest.mark.e2e


@pytest.fixture
async def runner() -> AsyncIterator[WhatIfRunner]:
    runner = WhatIfRunner(lambda: 1000.0)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(runner.run())
        yield runner
        task.cancel()


async def ended(runner: WhatIfRunner) -> str:
    async with asyncio.timeout(50):
        while runner.status == "running":
            await asyncio.sleep(0.02)
    return runner.status


async def test_a_job_ends_with_a_result(runner: WhatIfRunner, tmp_path: Path) -> None:
    """Nothing runs before, and one job at a time."""
    job = a_job(folder(tmp_path), Change(workers=3))
    before = runner.status
    runner.start(job)
    with pytest.raises(BusyError):
        runner.start(job)

    assert "idle" == before
    assert "done" == await ended(runner)
    replay = runner.latest
    assert replay is not None
    assert replay.result is not None
    assert (36, 1.0, 1000.0) == (replay.result.requests, replay.done, replay.started_at)
    assert (job, replay.result) == runner.of_shapes
    assert runner.find(replay.id) is replay


async def test_a_failure_is_said_and_the_next_job_runs(runner: WhatIfRunner, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    runner.start(a_job(tmp_path / "empty"))
    failed = await ended(runner), runner.latest and runner.latest.error
    runner.start(a_job(folder(tmp_path)))

    assert ("failed", "no requests were recorded in this time") == failed
    assert "done" == await ended(runner)
    assert ["done", "failed"] == [replay.status for replay in runner]


async def test_a_cancelled_job_makes_room_for_the_next(runner: WhatIfRunner, tmp_path: Path) -> None:
    """At once, whether its process has started or not."""
    job = a_job(folder(tmp_path))
    for has_process in (False, True):
        runner.start(job)
        while has_process and runner._process is None:
            await asyncio.sleep(0.001)

        assert runner.cancel()
        assert "cancelled" == runner.status
    assert not runner.cancel()
    runner.start(job)

    assert "done" == await ended(runner)
