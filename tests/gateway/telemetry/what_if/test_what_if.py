from pathlib import Path

import pytest

from gateway.telemetry.shapes.segments import Segments
from gateway.telemetry.what_if.job import Change, Engine, FleetShape, Job
from gateway.telemetry.what_if.runner import WhatIfRunner
from gateway.telemetry.what_if.what_if import NothingRecordedError, Prices, WhatIf, engines_of
from tests.gateway.examples import a_model
from tests.gateway.telemetry.shapes.examples import Times, recorder
from tests.gateway.telemetry.shapes.examples import completed as a_completed_request
from tests.routing.examples import A, B, a_fleet

PRICES = Prices(gpu_hour_usd=2.0, saved_token_usd=None)


def job_of(one: WhatIf) -> Job:
    assert one.runner.latest is not None
    return one.runner.latest.job


def what_if(files: Segments | None) -> WhatIf:
    return WhatIf(WhatIfRunner(lambda: 1000.0), files, lambda: None, 32_768, lambda: 5000.0)


def test_a_job_has_the_learned_times_of_all_workers() -> None:
    """10 ms and 1 ms per token for prefills; 20 ms per generated token, and 0.5 ms for each other stream."""
    model = a_model(fleet=a_fleet(A, B))
    one, other = engines_of(model)

    assert one == other
    assert (0.01, 0.001, 0.02, 0.0005) == pytest.approx(
        (one.prefill_fixed_s, one.prefill_s_per_token, one.decode_s, one.decode_slope_s), rel=0.01
    )


def test_a_model_without_workers_has_an_assumed_one() -> None:
    (engine,) = engines_of(a_model(fleet=a_fleet()))

    assert isinstance(engine, Engine)


def test_the_smallest_reported_cache_is_that_of_the_fleet(tmp_path: Path) -> None:
    """Two workers with caches of 16,000 and 8,000 tokens; and without reports the default."""
    fleet = a_fleet(A, B)
    one = what_if(Segments(tmp_path, max_bytes=1000, keep_s=60.0, wall_clock=lambda: 5000.0))
    one.replay(a_model(fleet=fleet), PRICES, [Change(workers=3)], last_s=600.0)
    default = job_of(one)
    one.runner.cancel()
    fleet.set_capacity(A, blocks=1000, block_size=16)
    fleet.set_capacity(B, blocks=500, block_size=16)
    one.replay(a_model(fleet=fleet), PRICES, [], last_s=600.0)
    job = job_of(one)

    assert FleetShape("prefix_aware", 2, 32_768) == default.fleet
    assert ((Change(workers=3),), 4400.0, str(tmp_path), 2.0) == (
        default.changes,
        default.since,
        default.directory,
        default.gpu_hour_usd,
    )
    assert FleetShape("prefix_aware", 2, 8000) == job.fleet


def test_nothing_is_replayed_unless_it_was_recorded() -> None:
    """Recording is off, or no request has come yet."""
    times = Times()
    temporary = Segments(None, max_bytes=1000, keep_s=60.0, wall_clock=times.wall_clock)
    for files, said in ((None, "Set request_shapes.enabled"), (temporary, "No request was recorded yet")):
        with pytest.raises(NothingRecordedError, match=said):
            what_if(files).replay(a_model(fleet=a_fleet(A)), PRICES, [], last_s=60.0)


def test_shapes_that_wait_are_written_before(tmp_path: Path) -> None:
    times = Times()
    shapes = recorder(tmp_path, times)
    shapes.observe([a_completed_request("abcd", 1.0)])
    files = Segments(tmp_path, max_bytes=1000, keep_s=60.0, wall_clock=times.wall_clock)
    before = len(list(tmp_path.iterdir()))
    one = WhatIf(WhatIfRunner(lambda: 1000.0), files, shapes.write, 32_768, times.wall_clock)
    one.replay(a_model(fleet=a_fleet(A)), PRICES, [], last_s=60.0)
    shapes.close()

    assert (0, 1) == (before, len(list(tmp_path.iterdir())))


def test_an_uploaded_trace_is_replayed_without_a_folder() -> None:
    one = what_if(None)
    one.replay_trace(a_model(fleet=a_fleet(A)), PRICES, [Change()], "{}", users=7)

    assert (None, "{}", 7) == (job_of(one).directory, job_of(one).trace, job_of(one).users)


def test_kv_events_are_assumed_where_all_workers_send_them() -> None:
    """Unless the caller states it."""
    fleet = a_fleet(A, B)
    one = what_if(None)
    found = []
    for trusted, stated in (((), None), ((A,), None), ((A, B), None), ((A, B), False), ((), True)):
        for worker in (A, B):
            fleet.set_trusted(worker, trusted=worker in trusted)
        one.replay_trace(a_model(fleet=fleet), PRICES, [], "{}", users=1, has_kv_events=stated)
        found.append(job_of(one).has_kv_events)
        one.runner.cancel()

    assert [False, False, True, False, True] == found
