"""Checks one worker: what is asked of it, what the answers mean, and what the fleet learns.

1. Up is proved, not presumed.
2. A sleeping worker is alive: that is no failure, but it gets no requests.
3. Readings are for information; routing uses the gateway's own account of the load.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from cache_index import WorkerId
from gateway.backends.engine_metrics import EngineKind, EngineReading, Observation
from gateway.backends.engine_watch import JSON_BYTES, EngineWatch
from gateway.backends.probe import WorkerProbe
from gateway.models.adapters.wire import adapters_in
from routing.fleet import Fleet

_log = logging.getLogger(__name__)

DEFAULT_PATH = "/health"
SGLANG_PATHS = ("/ready", "/v1/models")
"""Paths for SGLang: its ``/health`` generates a token and takes over a second. ``/ready`` turns 503 while it drains;
versions without it still list their models."""
FRUITLESS = 3
RARELY = 12
"""Factor by which a worker is asked less often after *FRUITLESS* readings without any metrics."""


@dataclass(slots=True, eq=False)
class HealthTarget:
    """One worker to check, in the fleet that learns the results."""

    worker: WorkerId
    url: str
    fleet: Fleet
    model: str
    on_down: Callable[[], None]
    """Called after the fleet knows that the worker is down."""
    on_reading: Callable[[Observation], None] = lambda _: None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every question."""
    came_up: Callable[[], None] = lambda: None
    """Called after the fleet knows that it is up, awake or restarted: requests may wait for that."""
    wants_adapters: Callable[[], bool] = lambda: False
    """Whether to ask it which LoRA adapters it has."""
    on_adapters: Callable[[list[str], float], None] = lambda _, __: None
    """Called with the adapters that it lists, and the time at which it was asked."""
    uid: str | None = None
    """Identity of its pod: another one is another worker at the same address."""
    places: "tuple[tuple[WorkerId, str | None, int | None], ...]" = ()
    """Workers that share the address: id, Dynamo instance, data-parallel rank. All are up or down together, and each
    has its own part of the reading. Empty: the worker has the address to itself."""

    @property
    def everybody(self) -> tuple[WorkerId, ...]:
        """All workers at the address."""
        return tuple(worker for worker, _, _ in self.places) or (self.worker,)

    def readings(self, whole: EngineReading) -> Iterator[tuple[WorkerId, EngineReading]]:
        """Return the part of *whole* that concerns each of them."""
        if not self.places:
            yield self.worker, whole
        for worker, instance, rank in self.places:
            yield worker, whole.of(instance, rank)


class HealthChecker:
    """State of one worker, by its checks."""

    def __init__(
        self,
        target: HealthTarget,
        probe: WorkerProbe,
        *,
        path: str,
        failures_to_down: int,
        successes_to_up: int,
        metrics_interval_s: float,
        kept_s: float,
        clock: Callable[[], float],
        up: bool = False,
    ) -> None:
        """A reading is stale after *kept_s*. *up* is the state in the fleet so far."""
        self.target = target
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
        """Checks in a row that contradict `up`."""
        self._is_down_known = False
        """Whether the log already says that the worker is down."""
        self._engine: EngineKind | None = None
        self._lacks_ready = False
        self._observation: Observation | None = None
        self._started_at: float | None = None
        self._asleep: set[WorkerId] = set()
        self._absent: set[WorkerId] = set()
        """Ranks that the engine does not have; it answers all their requests with 400."""
        self._has_read = False
        """Whether there was any reading since it came up."""
        self._fruitless = 0
        self._read_due = float("-inf")

    async def visit(self) -> None:
        """Check once, and read the metrics if the check succeeded and they are due."""
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
        return self._engine is EngineKind.SGLANG

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
        target = self.target
        for worker in target.everybody:
            target.fleet.set_up(worker, up=alive and worker not in self._absent)
        if alive:
            _log.info("worker %s of model %s is up", target.worker, target.model)
            target.came_up()
            self._is_down_known = False
        else:
            self._say_down()
            self._forget_engine()
            target.on_down()

    def _say_down(self) -> None:
        """Log once that the worker is down, also if it was never up."""
        self._is_down_known = True
        target = self.target
        _log.warning("worker %s of model %s is down: %s", target.worker, target.model, self._probe.fault)

    def _keep_up(self) -> None:
        """Mark all workers here as up again: a request between two checks may have failed to connect."""
        target = self.target
        fleet, came_up = target.fleet, False
        for worker in target.everybody:
            if worker in self._absent:
                continue
            incarnation = fleet.members.incarnation(worker)
            fleet.set_up(worker, up=True)
            came_up = came_up or fleet.members.incarnation(worker) != incarnation
        if came_up:
            target.came_up()

    def _forget_engine(self) -> None:
        """Forget the engine: another one may come up at this address."""
        self._watch.forget()
        self._engine = None
        self._lacks_ready = False
        self._has_read = False
        self._fruitless = 0
        self._absent = set()

    async def _read(self) -> None:
        asked_at = self._clock()
        reading = await self._watch.read()
        now = self._clock()
        if reading is None:  # it may only be too busy to tell: no sign of a restart
            self._fruitless += 1
        else:
            self._has_read = True
            self._take(reading, asked_at, now)
        if self.target.wants_adapters():
            await self._read_adapters()
        rare = not self._has_read and self._fruitless >= FRUITLESS
        self._read_due = now + self._metrics_interval_s * (RARELY if rare else 1)

    async def _read_adapters(self) -> None:
        asked_at = self._clock()
        body = await self._probe.body("/v1/models", max_bytes=JSON_BYTES)
        adapters = None if body is None else adapters_in(body)
        if adapters is not None:
            self.target.on_adapters(adapters, asked_at)

    def _take(self, reading: EngineReading, asked_at: float, now: float) -> None:
        target = self.target
        self._engine = reading.engine
        self._observation = Observation(reading, now, self._kept_s, asked_at=asked_at)
        if reading.started_at is not None and reading.started_at != self._started_at:
            if self._started_at is not None:
                for worker in target.everybody:
                    target.fleet.engine_restarted(worker)
                target.came_up()
                _log.info("worker %s of model %s has restarted: its cache is empty", target.worker, target.model)
            self._started_at = reading.started_at
        self._set_absent(_absent(target, reading))
        for worker, own in target.readings(reading):
            if own.cache_tokens is not None:
                block_size = own.block_size or 1
                target.fleet.set_capacity(worker, blocks=own.cache_tokens // block_size, block_size=block_size)
        self._set_asleep({worker for worker, own in target.readings(reading) if own.is_asleep})
        target.on_reading(self._observation)

    def _set_absent(self, absent: set[WorkerId]) -> None:
        target = self.target
        for worker in absent - self._absent:
            target.fleet.set_up(worker, up=False)
            _log.error("worker %s of model %s is missing: its engine has fewer ranks", worker, target.model)
        self._absent = absent

    def _set_asleep(self, asleep: Collection[WorkerId]) -> None:
        """Mark the workers in *asleep* as asleep, and the others at the address as awake."""
        target = self.target
        woke_up = False
        for worker in target.everybody:
            is_asleep = worker in asleep
            target.fleet.set_asleep(worker, asleep=is_asleep)
            if is_asleep != (worker in self._asleep):
                woke_up = woke_up or not is_asleep
                _log.info("worker %s of model %s is %s", worker, target.model, "asleep" if is_asleep else "awake")
        self._asleep = set(asleep)
        if woke_up:
            target.came_up()


def _absent(target: HealthTarget, reading: EngineReading) -> set[WorkerId]:
    """Return the ranks of *target* that its engine does not have. Only vLLM lists all of them from the start."""
    if reading.engine is not EngineKind.VLLM or reading.running is None:
        return set()
    there = {rank for _, rank in reading.places} or {0}
    return {worker for worker, _, rank in target.places if rank is not None and rank not in there}
