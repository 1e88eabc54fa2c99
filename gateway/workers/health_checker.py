"""Health checks of one worker: the requests, the meaning of the responses, and the resulting updates of the fleet.

1. A worker is up only after a check has succeeded.
2. A sleeping worker is alive but gets no requests. Sleep does not count as a failure.
3. Engine metrics are informational. Routing uses the gateway's own record of the load.
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
"""Health check paths for SGLang, whose ``/health`` generates a token and takes over a second. ``/ready`` returns 503
while SGLang drains. Versions without ``/ready`` still serve ``/v1/models``.
"""
FRUITLESS = 3
RARELY = 12
"""Factor by which the metrics interval is longer after *FRUITLESS* consecutive reads without metrics."""


@dataclass(slots=True, eq=False)
class HealthTarget:
    """Worker to check, with the fleet that receives the results and with functions to call on changes."""

    worker: WorkerId
    url: str
    fleet: Fleet
    model: str
    on_down: Callable[[], None]
    """Function that is called after the fleet has marked the worker as down."""
    on_reading: Callable[[Observation], None] = lambda _: None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """HTTP headers for every health check request."""
    came_up: Callable[[], None] = lambda: None
    """Function that is called after the fleet has marked the worker as up, awake or restarted."""
    wants_adapters: Callable[[], bool] = lambda: False
    """Function that returns whether to query the worker for its LoRA adapters."""
    on_adapters: Callable[[list[str], float], None] = lambda _, __: None
    """Function that is called with the LoRA adapters that the worker lists, and with the time of the query."""
    uid: str | None = None
    """UID of the worker's pod. If the UID changes, another worker has the same address."""
    places: "tuple[tuple[WorkerId, str | None, int | None], ...]" = ()
    """Workers that share the address, each as (worker id, Dynamo instance, data-parallel rank). All of them are up or
    down together, but each has separate engine metrics. The tuple is empty if the worker does not share its address.
    """

    @property
    def everybody(self) -> tuple[WorkerId, ...]:
        """Ids of all workers at the shared address."""
        return tuple(worker for worker, _, _ in self.places) or (self.worker,)

    def readings(self, whole: EngineReading) -> Iterator[tuple[WorkerId, EngineReading]]:
        """Yield the part of the engine metrics in *whole* that belongs to each worker at the address."""
        if not self.places:
            yield self.worker, whole
        for worker, instance, rank in self.places:
            yield worker, whole.of(instance, rank)


class HealthChecker:
    """Health checks of one worker, with their state."""

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
        """Create a checker. Metrics are stale after *kept_s*. *up* is the worker's current state in the fleet."""
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
        self._fault = ""
        """Error of the last health check as text, or an empty string if the check succeeded."""
        self._in_row = 0
        """Number of consecutive checks whose result contradicts the attribute `up`."""
        self._is_down_known = False
        """Whether the log already contains a message that the worker is down."""
        self._engine: EngineKind | None = None
        self._lacks_ready = False
        self._observation: Observation | None = None
        self._started_at: float | None = None
        self._asleep: set[WorkerId] = set()
        self._absent: set[WorkerId] = set()
        """Ids of workers whose rank does not exist in the engine, which rejects their requests with status 400."""
        self._has_read = False
        """Whether engine metrics have been read since the worker came up."""
        self._fruitless = 0
        self._read_due = float("-inf")

    async def visit(self) -> None:
        """Run one health check. If it succeeds and the engine metrics are due, read them, too."""
        alive = await self._is_alive()
        self._judge(alive=alive)
        if alive and self._up and self._clock() >= self._read_due:
            await self._read()
        if self._observation is None or self._observation.is_stale(self._clock()):
            self._set_asleep(())  # who does not tell is taken to be awake

    async def read_now(self) -> None:
        """Read the engine metrics now, even during a health check. If this fails, nothing changes.

        Metrics of a worker that is down are not read.
        """
        if self._up:
            asked_at = self._clock()
            reading = await self._watch.read()
            if reading is not None and self._up:
                self._take(reading, asked_at, self._clock())

    async def _is_alive(self) -> bool:
        """Return whether the health check path responds with a status below 500.

        If an engine of unknown kind does not respond in time, it is identified. SGLang is then checked at its own
        paths.
        """
        status = await self._ask()
        self._fault = self._probe.fault
        if status is None and self._path == DEFAULT_PATH and self._engine is None:
            await self._read()  # these requests have faults of their own
            if self._is_sglang:
                status = await self._ask_sglang()
                self._fault = self._probe.fault
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
        """Log once that the worker is down, even if it was never up."""
        self._is_down_known = True
        target = self.target
        _log.warning("worker %s of model %s is down: %s", target.worker, target.model, self._fault)

    def _keep_up(self) -> None:
        """Mark all workers at the address as up again, because a request might have marked one as down."""
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
        """Reset all knowledge about the engine, because another engine might come up at the same address."""
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
        """Mark the workers in *asleep* as asleep, and all other workers at the address as awake."""
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
    """Return the workers of *target* whose rank does not exist in the engine. Only vLLM lists all ranks at startup."""
    if reading.engine is not EngineKind.VLLM or reading.running is None:
        return set()
    there = {rank for _, rank in reading.places} or {0}
    return {worker for worker, _, rank in target.places if rank is not None and rank not in there}
