import pytest

from benchmarks.bench import Bench, Target
from benchmarks.peers.scenarios.prompts import Distinct
from benchmarks.peers.scenarios.timed import failures, noise, observe, spread_ms
from benchmarks.processes import Processes, start_stub_worker
from tests.benchmarks.peers.scenarios.made_up import reading


@pytest.mark.e2e
def test_a_target_is_seen_with_the_shares_of_its_workers() -> None:
    """Here it is one of two workers itself, so it gets everything."""
    with Processes() as processes:
        child, urls = start_stub_worker(processes, "--workers", "2")
        workers = urls.split(",")
        bench = Bench(processes, proxy_core=0, load_core=0, connections=1, seed=1)
        target = Target("direct", child, {"requests": workers[0], "streams": workers[0]})
        schedule = [number / 100 for number in range(20)]
        found = observe(bench, target, Distinct(1, 100), schedule, round_number=3, workers=workers)

    assert (20, 0, 3, (1.0, 0.0)) == (found.asked, found.failed, found.round, found.shares)
    assert found.first is not None
    assert found.last is not None
    assert found.first.p50_ms <= found.last.p50_ms


@pytest.mark.e2e
def test_where_nothing_came_whole_there_is_no_latency() -> None:
    with Processes() as processes:
        child, _ = start_stub_worker(processes)
        bench = Bench(processes, proxy_core=0, load_core=0, connections=1, seed=1)
        nowhere = "http://127.0.0.1:1"
        target = Target("nobody", child, {"requests": nowhere, "streams": nowhere})
        found = observe(bench, target, Distinct(1, 100), [0.0, 0.01], round_number=0)

    assert (2, None, {"not connected": 2}) == (found.failed, found.last, dict(found.ends))


def test_failures_are_reported_with_their_reasons() -> None:
    found = [reading("x", ends={"whole": 90, "late": 2, "status 503": 8}), reading("x", ends={"status 503": 1})]

    assert "status 503: 9, late: 2" == failures(found)
    assert 0 == failures([reading("x")])


def test_rounds_without_a_figure_are_left_out() -> None:
    found = [reading("x", 5.0), reading("x", None)]

    assert "5 (5 – 5)" == str(spread_ms(found, lambda each: each.last.p99_ms if each.last else None))
    assert spread_ms(found[1:], lambda each: each.last.p99_ms if each.last else None) is None


@pytest.mark.parametrize(("share", "notes"), [(0.2, 2), (0.01, 1)])
def test_a_machine_that_was_not_quiet_is_reported(share: float, notes: int) -> None:
    assert notes == len(noise([reading("x", noise=share)]))
