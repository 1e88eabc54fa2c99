"""Asks workers how they are: often and cheaply whether they live, less often how large their cache is."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import httpx

from cache_index import WorkerId
from gateway.engine_metrics import EngineFacts
from routing.fleet import Fleet

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Patient:
    """One worker under observation, in the fleet that is to know. Up is proved, not presumed."""

    worker: WorkerId
    url: str
    fleet: Fleet
    model: str
    on_down: Callable[[], None]
    """Called after the fleet knows that the worker is down."""
    up: bool = False
    in_row: int = 0
    """Checks in a row that spoke against `up`."""
    started_at: float | None = None
    facts_read: bool = False


class Health:
    """Checks every worker each *interval_s*, and reads its metrics each *metrics_interval_s*.

    A worker is up if *path* answers anything below 500: engines without such a path are alive all the same.
    """

    def __init__(
        self,
        patients: Iterable[Patient],
        *,
        client: httpx.AsyncClient,
        path: str,
        interval_s: float,
        timeout_s: float,
        failures_to_down: int,
        successes_to_up: int,
        metrics_interval_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._patients = list(patients)
        self._client = client
        self._path = path
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._failures_to_down = failures_to_down
        self._successes_to_up = successes_to_up
        self._metrics_interval_s = metrics_interval_s
        self._clock = clock
        self._read_at = -metrics_interval_s

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.check()

    async def check(self) -> None:
        """One round over all workers, side by side; takes *timeout_s* for each of the two questions at most."""
        await asyncio.gather(*(self._check(patient) for patient in self._patients))
        now = self._clock()
        overdue = now - self._read_at >= self._metrics_interval_s
        if overdue:
            self._read_at = now
        readable = [p for p in self._patients if p.up and (overdue or not p.facts_read)]
        await asyncio.gather(*(self._read(patient) for patient in readable))
        for fleet in dict.fromkeys(patient.fleet for patient in self._patients):
            for booking in fleet.tick(now):
                _log.warning("a booking on %s was never released; its lease has ended", booking.worker)

    async def _check(self, patient: Patient) -> None:
        response = await self._get(patient.url + self._path)
        alive = response is not None and response.status_code < 500
        if alive == patient.up:
            patient.in_row = 0
            return
        patient.in_row += 1
        if patient.in_row >= (self._successes_to_up if alive else self._failures_to_down):
            patient.up = alive
            patient.in_row = 0
            patient.facts_read = False
            patient.fleet.set_up(patient.worker, up=alive)
            _log.info("worker %s of model %s is %s", patient.worker, patient.model, "up" if alive else "down")
            if not alive:
                patient.on_down()

    async def _read(self, patient: Patient) -> None:
        """The size of its cache, and whether it is the engine that it was."""
        response = await self._get(patient.url + "/metrics")
        patient.facts_read = True
        if response is None or not response.is_success:
            return  # it may only be too busy to tell: no sign of another life
        facts = EngineFacts.parse(response.text)
        if facts.started_at is not None and facts.started_at != patient.started_at:
            if patient.started_at is not None:
                patient.fleet.restarted(patient.worker)
                _log.info("worker %s of model %s has restarted: its cache is empty", patient.worker, patient.model)
            patient.started_at = facts.started_at
        if facts.blocks is not None and facts.block_size is not None:
            patient.fleet.set_capacity(patient.worker, blocks=facts.blocks, block_size=facts.block_size)

    async def _get(self, url: str) -> httpx.Response | None:
        """None if there was no answer in time."""
        try:
            return await asyncio.wait_for(self._client.get(url, timeout=None), self._timeout_s)
        except (httpx.HTTPError, TimeoutError):
            return None
