"""Run of one slice through one router at one load, with new programs and cold caches."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.peers.routing.asking import Door
from benchmarks.peers.routing.entrants import Entrant, Pace
from benchmarks.peers.routing.outcome import Effort, Outcome
from benchmarks.peers.routing.playing import play
from benchmarks.peers.routing.slices import Session
from benchmarks.peers.routing.workers import WorkerOptions, Workers, since
from benchmarks.processes import Processes

PATIENCE_S = 300.0
"""Maximum wait of a client in real seconds."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Requests that every router receives."""

    sessions: Sequence[Session]
    """Sessions of the slice at load 1."""
    workers: WorkerOptions
    shrink: int

    @property
    def pace(self) -> Pace:
        return Pace(self.workers.speed, self.shrink)

    def head(self, share: float) -> "Trial":
        """Return the trial with only the first sessions, at least one, for a quick test."""
        return dataclasses.replace(self, sessions=self.sessions[: max(1, round(share * len(self.sessions)))])

    def run(self, entrant: Entrant, *, load: float) -> Outcome:
        """Run the slice and return the results. Blocks for the duration of the slice at *load* and some seconds more.

        Raises:
            ChildFailedError: if a worker or the router did not start.
            ValueError: if no request reached a worker.
        """
        sessions = [session.at(load) for session in self.sessions]
        with Processes() as processes:
            workers = Workers.start(processes, self.workers)
            router, url = entrant.start(processes, workers, self.pace)
            before, begun = workers.work(), time.monotonic()
            spent = (time.process_time(), router.cpu_s(), workers.cpu_s())
            answers = uvloop.run(play(sessions, Door(url, timeout_s=PATIENCE_S), speed=self.workers.speed))
            took_s = time.monotonic() - begun
            effort = Effort(
                (time.process_time() - spent[0]) / took_s,
                (router.cpu_s() - spent[1]) / took_s,
                (workers.cpu_s() - spent[2]) / took_s,
            )
            work = since(before, workers.work())
        return Outcome.of(
            entrant.name,
            answers,
            work,
            effort,
            is_ours=entrant.is_ours,
            speed=self.workers.speed,
            took_s=took_s,
        )
