"""Asks workers how they are: often and cheaply whether they live, less often what their engine tells of itself.

Every worker is attended on its own: one that hangs delays what is found of itself, and of nobody else.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from cache_index import WorkerId
from gateway.backends.client import WorkerClient
from gateway.checkup import Checkup, Patient
from gateway.probe import Probe
from routing.fleet import Fleet

_log = logging.getLogger(__name__)

JITTER = 0.1
"""Share by which intervals differ, so that workers that were asked together do not stay together."""
READINGS_KEPT = 3
"""Intervals after which a reading is no longer shown for the present."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How often what is asked, and what follows from it."""

    path: str
    interval_s: float
    timeout_s: float
    failures_to_down: int
    successes_to_up: int
    metrics_interval_s: float


@dataclass(frozen=True, slots=True)
class _Case:
    """Equal where a checkup can go on: the same worker of the same fleet, asked the same by the same rules."""

    fleet: Fleet
    worker: WorkerId
    url: str
    headers: frozenset[tuple[str, str]]
    rules: Rules
    uid: str | None
    places: tuple[tuple[WorkerId, str | None, int | None], ...]


@dataclass(slots=True, eq=False)
class _Attendance:
    checkup: Checkup
    rules: Rules
    task: "asyncio.Task[None] | None" = None
    reading: "asyncio.Task[None] | None" = None
    """One that was asked for before its turn."""


class Health:
    """Checks every worker each `interval_s`, and reads what its engine tells each `metrics_interval_s`.

    A worker is up if `path` answers anything below 500: engines without such a path are alive all the same. Where
    `path` is the default, SGLang is asked for something cheaper.
    """

    def __init__(self, rules: Rules, *, client: WorkerClient, clock: Callable[[], float], rng: random.Random) -> None:
        self._rules = rules
        self._client = client
        self._clock = clock
        self._rng = rng
        self._attended: dict[_Case, _Attendance] = {}
        self._fleets: list[Fleet] = []
        self._tasks: asyncio.TaskGroup | None = None

    def attend(self, patients: Iterable[Patient], rules: Rules) -> None:
        """Check *patients* from this moment on, and nobody else; of those that stay nothing is forgotten.

        While it runs, whoever is added is visited at once.
        """
        self._rules = rules
        former, self._attended = self._attended, {}
        for patient in patients:
            headers = frozenset(patient.headers.items())
            case = _Case(
                *(patient.fleet, patient.worker, patient.url), headers, rules, patient.uid, places=patient.places
            )
            attendance = former.pop(case, None) or _Attendance(self._checkup(patient, rules), rules)
            self._attended[case] = attendance
            if attendance.task is None and self._tasks is not None:
                attendance.task = self._tasks.create_task(self._attend(attendance, after_s=0.0))
        for gone in former.values():
            for task in (gone.task, gone.reading):
                if task is not None:
                    task.cancel()
        self._fleets = list(dict.fromkeys(case.fleet for case in self._attended))

    async def run(self) -> None:
        """Check until cancelled."""
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
        """Read what the engine at *url* tells, before its turn: somebody needs to know whether it generates.

        Nothing happens while such a reading is under way, where nobody is checked at *url*, or while it does not run.
        """
        attendance = next((each for case, each in self._attended.items() if case.url == url), None)
        if attendance is None or self._tasks is None:
            return
        if attendance.reading is None or attendance.reading.done():
            attendance.reading = self._tasks.create_task(self._read(attendance.checkup))

    async def check(self) -> None:
        """One round over all workers, side by side; as long as the slowest takes, a few times `timeout_s` at most."""
        await asyncio.gather(*(self._visit(attendance.checkup) for attendance in self._attended.values()))
        self._tick()

    def _checkup(self, patient: Patient, rules: Rules) -> Checkup:
        return Checkup(
            patient,
            Probe(self._client, patient.url, timeout_s=rules.timeout_s, headers=patient.headers),
            path=rules.path,
            failures_to_down=rules.failures_to_down,
            successes_to_up=rules.successes_to_up,
            metrics_interval_s=rules.metrics_interval_s,
            kept_s=READINGS_KEPT * (rules.metrics_interval_s + rules.interval_s),
            clock=self._clock,
            up=any(state.id in patient.everybody and state.is_up for state in patient.fleet),
        )

    async def _attend(self, attendance: _Attendance, *, after_s: float) -> None:
        interval_s = attendance.rules.interval_s
        await asyncio.sleep(after_s)
        while True:
            await self._visit(attendance.checkup)
            await asyncio.sleep(interval_s * self._rng.uniform(1.0 - JITTER, 1.0 + JITTER))

    async def _visit(self, checkup: Checkup) -> None:
        await self._survive(checkup, checkup.visit())

    async def _read(self, checkup: Checkup) -> None:
        await self._survive(checkup, checkup.read_now())

    async def _survive(self, checkup: Checkup, step: Awaitable[None]) -> None:
        try:
            await step
        except Exception:  # noqa: BLE001  # what one worker brings about must not end the checks of the others
            _log.exception("checking worker %s of model %s failed", checkup.patient.worker, checkup.patient.model)

    def _tick(self) -> None:
        for fleet in self._fleets:
            for booking in fleet.tick(self._clock()):
                _log.warning("a booking on %s was never released; its lease has ended", booking.worker)
