import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from benchmarks.peers.routing.entrants import Pace
from benchmarks.peers.routing.slices import MadeUp, Session, Turn
from benchmarks.peers.routing.trial import Trial
from benchmarks.peers.routing.workers import WorkerOptions, Workers
from benchmarks.processes import Child, Processes

WORKER = WorkerOptions(1, 200, 10_000.0, 1.0, "fifo", 20.0)


@dataclass(frozen=True, slots=True)
class NoRouter:
    """Between clients and the first worker."""

    name: str = "nobody"
    is_ours: bool = False
    pins: Sequence[str] = ()

    def prepare(self) -> None:
        pass

    def start(self, processes: Processes, workers: Workers, pace: Pace) -> tuple[Child, str]:
        return processes.start("nobody", [sys.executable, "-c", "import time; time.sleep(60)"]), workers.urls[0]


def a_session(number: int) -> Session:
    """Two turns, the second of which goes on from the first: 3 blocks of 16 tokens, then 6, and what follows."""
    first, second = (MadeUp(tuple(range(3 * turns)), 16, 8, 2 * number + turns) for turns in (1, 2))
    return Session(float(number), [Turn(0.0, first, 4), Turn(1.0, second, 4)])


@pytest.mark.e2e
def test_everybody_is_answered_by_workers_whose_caches_were_cold() -> None:
    """The first prompt finds nothing, the second its 3 blocks, the third 3 and the fourth 6."""
    found = Trial([a_session(0), a_session(50)], WORKER, 1).run(NoRouter(), load=10.0)

    assert ("nobody", False, 4, {}) == (found.router, found.is_ours, found.requests, found.failures)
    # Each prompt has 8 tokens behind its blocks, and 4 that begin the answer.
    assert (3 + 3 + 6) * 16 / ((3 + 6) * 2 * 16 + 4 * 12) == found.hit_rate
    assert 16 == found.output_tokens
    assert (1.0, 1.0) == (found.imbalance, found.busiest_share)
    assert 0 < found.ttft_mean_s <= found.ttft_p99_s


def test_a_look_takes_the_first_sessions() -> None:
    trial = Trial([a_session(number) for number in range(10)], WORKER, 1)

    assert trial.sessions[:3] == trial.head(0.3).sessions
    assert trial.sessions[:1] == trial.head(0.01).sessions
    assert Pace(20.0, 1) == trial.pace
