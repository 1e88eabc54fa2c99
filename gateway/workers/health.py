"""Periodic health checks of all workers, and less frequent reads of their engine metrics.

Every worker is checked independently, so a worker that hangs does not delay the checks of others.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from cache_index import WorkerId
from gateway.backends.client import WorkerClient
from gateway.backends.probe import WorkerProbe
from gateway.workers.health_checker import HealthChecker, HealthTarget
from routing.fleet import Fleet

_log = logging.getLogger(__name__)

JITTER = 0.1
"""Relative random variation of check intervals, which distributes the checks of different workers over time."""
READINGS_KEPT = 3
"""Number of metrics intervals after which the last engine metrics count as stale."""


@dataclass(frozen=True, slots=True)
class HealthRules:
    path: str
    interval_s: float
    timeout_s: float
    failures_to_down: int
    successes_to_up: int
    metrics_interval_s: float


@dataclass(frozen=True, slots=True)
class _Case:
    """Identity of a health check. A running checker is kept while its target and rules stay equal."""

    fleet: Fleet
    worker: WorkerId
    url: str
    headers: frozenset[tuple[str, str]]
    rules: HealthRules
    uid: str | None
    places: tuple[tuple[WorkerId, str | None, int | None], ...]


@dataclass(slots=True, eq=False)
class _Attendance:
    checker: HealthChecker
    rules: HealthRules
    task: "asyncio.Task[None] | None" = None
    reading: "asyncio.Task[None] | None" = None
    """Task that reads engine metrics ahead of schedule, or None if no such task was started."""


class Health:
    """Periodic check of all workers each `interval_s`, and of their engine metrics each `metrics_interval_s`.

    A worker is up if a GET of `path` returns a status below 500, because an engine without this path is still alive. If
    `path` is the default, SGLang workers are checked at a cheaper path.
    """

    def __init__(
        self, rules: HealthRules, *, client: WorkerClient, clock: Callable[[], float], rng: random.Random
    ) -> None:
        self._rules = rules
        self._client = client
        self._clock = clock
        self._rng = rng
        self._attended: dict[_Case, _Attendance] = {}
        self._fleets: list[Fleet] = []
        self._tasks: asyncio.TaskGroup | None = None

    def attend(self, targets: Iterable[HealthTarget], rules: HealthRules) -> None:
        """Check exactly *targets* from now on. The state of workers that were already checked is kept.

        A target that is added while checks are running is checked at once.
        """
        self._rules = rules
        former, self._attended = self._attended, {}
        for target in targets:
            headers = frozenset(target.headers.items())
            case = _Case(*(target.fleet, target.worker, target.url), headers, rules, target.uid, places=target.places)
            attendance = former.pop(case, None) or _Attendance(self._checker(target, rules), rules)
            self._attended[case] = attendance
            if attendance.task is None and self._tasks is not None:
                attendance.task = self._tasks.create_task(self._attend(attendance, after_s=0.0))
        for gone in former.values():
            for task in (gone.task, gone.reading):
                if task is not None:
                    task.cancel()
        self._fleets = list(dict.fromkeys(case.fleet for case in self._attended))

    async def run(self) -> None:
        """Run health checks until canceled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for attendance in self._attended.values():
                after_s = self._rng.uniform(0.0, self._rules.interval_s)
                attendance.task = tasks.create_task(self._attend(attendance, after_s=after_s))
            try:
                while True:
                    await asyncio.sleep(self._rules.interval_s)
                    self._tick()
            finally:
                self._tasks = None

    def read_soon(self, url: str) -> None:
        """Read the metrics of the engine at *url* ahead of schedule, to see whether the engine generates tokens.

        Do nothing if such a read is already running, if no target has this *url*, or if `run` has not started.
        """
        attendance = next((each for case, each in self._attended.items() if case.url == url), None)
        if attendance is None or self._tasks is None:
            return
        if attendance.reading is None or attendance.reading.done():
            attendance.reading = self._tasks.create_task(self._read(attendance.checker))

    async def check(self) -> None:
        """Check all workers once at the same time. It takes as long as the slowest check, a few times `timeout_s` at
        most.
        """
        await asyncio.gather(*(self._visit(attendance.checker) for attendance in self._attended.values()))
        self._tick()

    def _checker(self, target: HealthTarget, rules: HealthRules) -> HealthChecker:
        return HealthChecker(
            target,
            WorkerProbe(self._client, target.url, timeout_s=rules.timeout_s, headers=target.headers),
            path=rules.path,
            failures_to_down=rules.failures_to_down,
            successes_to_up=rules.successes_to_up,
            metrics_interval_s=rules.metrics_interval_s,
            kept_s=READINGS_KEPT * (rules.metrics_interval_s + rules.interval_s),
            clock=self._clock,
            up=any(state.id in target.everybody and state.is_up for state in target.fleet),
        )

    async def _attend(self, attendance: _Attendance, *, after_s: float) -> None:
        interval_s = attendance.rules.interval_s
        await asyncio.sleep(after_s)
        while True:
            await self._visit(attendance.checker)
            await asyncio.sleep(interval_s * self._rng.uniform(1.0 - JITTER, 1.0 + JITTER))

    async def _visit(self, checker: HealthChecker) -> None:
        await self._survive(checker, checker.visit())

    async def _read(self, checker: HealthChecker) -> None:
        await self._survive(checker, checker.read_now())

    async def _survive(self, checker: HealthChecker, step: Awaitable[None]) -> None:
        try:
            await step
        except Exception:  # noqa: BLE001  # what one worker brings about must not end the checks of the others
            _log.exception("checking worker %s of model %s failed", checker.target.worker, checker.target.model)

    def _tick(self) -> None:
        for fleet in self._fleets:
            for booking in fleet.tick(self._clock()):
                _log.warning("a reservation on worker %s was not released and has expired", booking.worker)
