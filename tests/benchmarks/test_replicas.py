"""What is asked, counted and promised; the runs themselves take minutes."""

import math

import pytest

from benchmarks.peers.routing.asking import Answer
from benchmarks.peers.routing.slices import Said, Session, Turn
from benchmarks.peers.routing.workers import Work
from benchmarks.replicas import (
    APART,
    KILLED,
    ONE,
    SETUPS,
    TWO,
    Run,
    Setup,
    bookings_in,
    hit_rate,
    least_s,
    parse_arguments,
    sharing,
    tell,
    trial_of,
)
from benchmarks.report import Circumstances, Report
from gateway.settings import build


def a_run(setup: Setup, hits: float, *, late: float = 0.9, stuck_s: float | None = None) -> Run:
    return Run("tau", "prefix_aware", setup.name, 100, {}, hits, late, 0.1, 0.2, stuck_s)


def reported(*runs: Run) -> Report:
    report = Report("replicas", "any", Circumstances.observe(seed=1, packages=[]))
    tell(report, runs)
    return report


def test_hits_are_the_cached_share_of_all_prompts() -> None:
    assert 0.75 == hit_rate([Work(1, 100, 100, 5), Work(1, 300, 200, 5)])
    assert math.isnan(hit_rate([Work(0, 0, 0, 0)]))


def test_a_run_is_reported_in_seconds_of_the_workers() -> None:
    """Those that failed have no time to a first token, and are counted by why."""
    answers = [Answer(0.1, 1.0, 0.0, None), Answer(0.3, 1.0, 0.0, None), Answer(9.0, 9.0, 0.0, "cut")]
    run = Run.of("tau", "kv_aware", TWO, answers, [Work(3, 100, 80, 1)], [Work(1, 50, 45, 1)], stuck_s=None, speed=10.0)

    assert (3, {"cut": 1}, 0.8, 0.9) == (run.requests, run.failures, run.hit_rate, run.late_hit_rate)
    assert (3.0, 3.0) == pytest.approx((run.ttft_p50_s, run.ttft_p90_s))


def test_two_that_agree_meet_the_bars() -> None:
    """Without Redis there is not one."""
    report = reported(
        a_run(ONE, 0.90), a_run(TWO, 0.89), a_run(APART, 0.5), a_run(KILLED, 0.85, late=0.88, stuck_s=3.5)
    )

    assert [0.89 / 0.90, 3.5, 0.88 / 0.9] == [bar.value for bar in report.bars]
    assert report.is_met
    assert 4 == len(report.tables[0].rows)


@pytest.mark.parametrize(
    "runs",
    [
        [a_run(ONE, 0.90), a_run(TWO, 0.87)],
        [a_run(KILLED, 0.9, stuck_s=5.1)],
        [a_run(TWO, 0.9), a_run(KILLED, 0.9, late=0.87, stuck_s=1.0)],
    ],
)
def test_what_is_lost_is_a_missed_bar(runs: list[Run]) -> None:
    """Each by itself."""
    assert not reported(*runs).is_met


@pytest.mark.parametrize("store", [None, "redis://127.0.0.1:1/0"])
def test_gateways_get_settings_that_can_be(store: str | None) -> None:
    """With a key for the clients, and ports of their own."""
    base = {"models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:9"}]}]}
    one, other = (build(sharing(base, store, 2.0), {}) for _ in range(2))

    assert one.server.port != other.server.port
    assert (store, 0.01) == (one.store.url, one.advanced.replica_tie_s)
    assert ["bench"] == [team.name for team in one.teams]


def test_every_setup_gets_the_same_of_a_slice() -> None:
    """Somebody is killed in the middle of it."""
    options = parse_arguments(["--conversations", "5", "--sessions", "2", "--turns", "3", "--kill-at-share", "0.5"])
    tau, agentic = trial_of("tau", options), trial_of("agentic", options)

    assert (5, 2, 4) == (len(tau.sessions), len(agentic.sessions), tau.workers.count)
    assert 3 == max(len(session.turns) for session in agentic.sessions)
    assert 0.5 * least_s(tau.sessions, tau.workers) / 2.0 == tau.kill_at_s > 3.0
    assert tau.sessions == trial_of("tau", options).sessions
    assert [1, 2, 2, 2] == [setup.gateways for setup in SETUPS]


def test_a_slice_takes_as_long_as_its_longest_session() -> None:
    """It begins at 5, pauses for 2, and its 300 tokens take 12 ms each."""
    workers = trial_of("tau", parse_arguments(["--conversations", "1"])).workers
    turns = [Turn(0.0, Said([]), 100), Turn(2.0, Said([]), 200)]

    assert 5.0 + 2.0 + 3.6 == pytest.approx(least_s([Session(5.0, turns), Session(8.0, turns[:1])], workers))


def test_load_of_others_is_read_from_the_exposition() -> None:
    assert 7.0 == bookings_in("# TYPE warmgate_replica_bookings gauge\nwarmgate_replica_bookings 7.0\n")
    assert 0.0 == bookings_in("# TYPE warmgate_replica_bookings gauge\n")
