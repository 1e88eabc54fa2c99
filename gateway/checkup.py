"""One worker under observation: what is asked of it, what the answers mean, and what the fleet is told.

1. Up is proved, not presumed.
2. A worker that sleeps lives: it is no failure, but it gets no requests.
3. Readings inform; the load that routing goes by is the gateway's own account.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from cache_index import WorkerId
from gateway.adapters.wire import adapters_in
from gateway.engine_metrics import Engine, EngineReading, Observation
from gateway.engine_watch import JSON_BYTES, EngineWatch
from gateway.probe import Probe
from routing.fleet import Fleet

_log = logging.getLogger(__name__)

DEFAULT_PATH = "/health"
SGLANG_PATHS = ("/ready", "/v1/models")
"""What SGLang is asked instead: its ``/health`` generates a token and takes over a second. ``/ready`` turns 503 while
it drains; versions without it still list their models."""
FRUITLESS = 3
RARELY = 12
"""A worker that told nothing of itself, asked *FRUITLESS* times, is asked this many times less often."""


@dataclass(slots=True, eq=False)
class Patient:
    """One worker under observation, in the fleet that is to know."""

    worker: WorkerId
    url: str
    fleet: Fleet
    model: str
    on_down: Callable[[], None]
    """Called after the fleet knows that the worker is down."""
    on_reading: Callable[[Observation], None] = lambda _: None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every question."""
    came_up: Callable[[], None] = lambda: None
    """Called after the fleet knows that it is up or awake again, or lives anew: somebody may wait for that."""
    wants_adapters: Callable[[], bool] = lambda: False
    """Whether it should be asked which LoRA adapters it has."""
    on_adapters: Callable[[list[str], float], None] = lambda _, __: None
    """Called with those that it lists, and the time at which it was asked."""
    uid: str | None = None
    """With another one it is another worker at the same address."""
    places: "tuple[tuple[WorkerId, str | None, int | None], ...]" = ()
    """Who shares the address: id, instance of Dynamo's, data-parallel rank. All live or die together, and each is told
    what the reading says of its place. Empty: the worker has it to itself."""

    @property
    def everybody(self) -> tuple[WorkerId, ...]:
        """All for whom the address answers."""
        return tuple(worker for worker, _, _ in self.places) or (self.worker,)

    def readings(self, whole: EngineReading) -> Iterator[tuple[WorkerId, EngineReading]]:
        """What *whole* says of each of them."""
        if not self.places:
            yield self.worker, whole
        for worker, instance, rank in self.places:
            yield worker, whole.of(instance, rank)


class Checkup:
    """What has been found of one worker, and what follows from it."""

    def __init__(
        self,
        patient: Patient,
        probe: Probe,
        *,
        path: str,
        failures_to_down: int,
        successes_to_up: int,
        metrics_interval_s: float,
        kept_s: float,
        clock: Callable[[], float],
        up: bool = False,
    ) -> None:
        """A reading is shown for the present until *kept_s* have passed. *up* is what the fleet believes so far."""
        self.patient = patient
        self._probe = probe
        self._watch = EngineWatch(probe)
        self._path = path
        self._failures_to_down = failures_to_down
        self._successes_to_up = successes_to_up
        self._metrics_interval_s = metrics_interval_s
        self._kept_s = kept_s
        self._clock = clock
        self._up = up
        self._in_row = 0
        """Checks in a row that spoke against `up`."""
        self._is_down_known = False
        """It was logged that the worker is down."""
        self._engine: Engine | None = None
        self._lacks_ready = False
        self._observation: Observation | None = None
        self._started_at: float | None = None
        self._asleep: set[WorkerId] = set()
        self._absent: set[WorkerId] = set()
        """Ranks that the engine has not; it answers with 400 whatever is sent to them."""
        self._told = False
        """In this life, anything at all."""
        self._fruitless = 0
        self._read_due = float("-inf")

    async def visit(self) -> None:
        """One check, and a reading if it is time for one and the check was good."""
        alive = await self._is_alive()
        self._judge(alive=alive)
        if alive and self._up and self._clock() >= self._read_due:
            await self._read()
        if self._observation is None or self._observation.is_stale(self._clock()):
            self._set_asleep(())  # who does not tell is taken to be awake

    async def read_now(self) -> None:
        """Read the engine before its turn, also during a visit. A reading that fails changes nothing.

        A worker that is down is not read.
        """
        if self._up:
            asked_at = self._clock()
            reading = await self._watch.read()
            if reading is not None and self._up:
                self._take(reading, asked_at, self._clock())

    async def _is_alive(self) -> bool:
        """Whether the path that suits the engine answers below 500.

        An unknown worker that is silent may be SGLang, of which ``/health`` takes longer than the timeout.
        """
        status = await self._ask()
        if status is None and self._path == DEFAULT_PATH and self._engine is None:
            await self._read()
            status = await self._ask_sglang() if self._is_sglang else None
        return status is not None and status < 500

    @property
    def _is_sglang(self) -> bool:
        return self._engine is Engine.SGLANG

    async def _ask(self) -> int | None:
        if self._path == DEFAULT_PATH and self._is_sglang:
            return await self._ask_sglang()
        return await self._probe.status(self._path)

    async def _ask_sglang(self) -> int | None:
        ready, models = SGLANG_PATHS
        if not self._lacks_ready:
            status = await self._probe.status(ready)
            if status is None or not 400 <= status < 500:
                return status
            self._lacks_ready = True
        return await self._probe.status(models)

    def _judge(self, *, alive: bool) -> None:
        if alive == self._up:
            self._in_row = 0
            if alive:
                self._keep_up()
            elif not self._is_down_known:
                self._say_down()
            return
        self._in_row += 1
        if self._in_row < (self._successes_to_up if alive else self._failures_to_down):
            return
        self._up = alive
        self._in_row = 0
        self._read_due = float("-inf")
        patient = self.patient
        for worker in patient.everybody:
            patient.fleet.set_up(worker, up=alive and worker not in self._absent)
        if alive:
            _log.info("worker %s of model %s is up", patient.worker, patient.model)
            patient.came_up()
            self._is_down_known = False
        else:
            self._say_down()
            self._forget_engine()
            patient.on_down()

    def _say_down(self) -> None:
        """Once, also of one that was never up."""
        self._is_down_known = True
        patient = self.patient
        _log.warning("worker %s of model %s is down: %s", patient.worker, patient.model, self._probe.fault)

    def _keep_up(self) -> None:
        """A request may have found nobody at its address, between two checks: somebody is there again."""
        patient = self.patient
        fleet, came_up = patient.fleet, False
        for worker in patient.everybody:
            if worker in self._absent:
                continue
            life = fleet.life(worker)
            fleet.set_up(worker, up=True)
            came_up = came_up or fleet.life(worker) != life
        if came_up:
            patient.came_up()

    def _forget_engine(self) -> None:
        """What comes up at this address may be another one."""
        self._watch.forget()
        self._engine = None
        self._lacks_ready = False
        self._told = False
        self._fruitless = 0
        self._absent = set()

    async def _read(self) -> None:
        asked_at = self._clock()
        reading = await self._watch.read()
        now = self._clock()
        if reading is None:  # it may only be too busy to tell: no sign of another life
            self._fruitless += 1
        else:
            self._told = True
            self._take(reading, asked_at, now)
        if self.patient.wants_adapters():
            await self._read_adapters()
        rare = not self._told and self._fruitless >= FRUITLESS
        self._read_due = now + self._metrics_interval_s * (RARELY if rare else 1)

    async def _read_adapters(self) -> None:
        asked_at = self._clock()
        body = await self._probe.body("/v1/models", max_bytes=JSON_BYTES)
        adapters = None if body is None else adapters_in(body)
        if adapters is not None:
            self.patient.on_adapters(adapters, asked_at)

    def _take(self, reading: EngineReading, asked_at: float, now: float) -> None:
        patient = self.patient
        self._engine = reading.engine
        self._observation = Observation(reading, now, self._kept_s, asked_at=asked_at)
        if reading.started_at is not None and reading.started_at != self._started_at:
            if self._started_at is not None:
                for worker in patient.everybody:
                    patient.fleet.restarted(worker)
                patient.came_up()
                _log.info("worker %s of model %s has restarted: its cache is empty", patient.worker, patient.model)
            self._started_at = reading.started_at
        self._set_absent(_absent(patient, reading))
        for worker, own in patient.readings(reading):
            if own.cache_tokens is not None:
                block_size = own.block_size or 1
                patient.fleet.set_capacity(worker, blocks=own.cache_tokens // block_size, block_size=block_size)
        self._set_asleep({worker for worker, own in patient.readings(reading) if own.is_asleep})
        patient.on_reading(self._observation)

    def _set_absent(self, absent: set[WorkerId]) -> None:
        patient = self.patient
        for worker in absent - self._absent:
            patient.fleet.set_up(worker, up=False)
            _log.error("worker %s of model %s is not there: its engine has fewer ranks", worker, patient.model)
        self._absent = absent

    def _set_asleep(self, asleep: Collection[WorkerId]) -> None:
        """Those of *asleep* are, and no others of the address."""
        patient = self.patient
        woke_up = False
        for worker in patient.everybody:
            is_asleep = worker in asleep
            patient.fleet.set_asleep(worker, asleep=is_asleep)
            if is_asleep != (worker in self._asleep):
                woke_up = woke_up or not is_asleep
                _log.info("worker %s of model %s is %s", worker, patient.model, "asleep" if is_asleep else "awake")
        self._asleep = set(asleep)
        if woke_up:
            patient.came_up()


def _absent(patient: Patient, reading: EngineReading) -> set[WorkerId]:
    """The ranks of *patient* that its engine does not have. Only vLLM tells of all of them from the start on."""
    if reading.engine is not Engine.VLLM or reading.running is None:
        return set()
    there = {rank for _, rank in reading.places} or {0}
    return {worker for worker, _, rank in patient.places if rank is not None and rank not in there}
