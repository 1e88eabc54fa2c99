"""State of LoRA adapters on workers, shared by all models that are adapters. Adapters are loaded on demand.

1. A load continues even if its caller disconnects. Later requests for the same adapter and worker wait for that load.
2. Loads and unloads on a worker run one at a time, so room stays available and no adapter is unloaded twice.
3. Workers without the adapter cost more by the load time. A request waits for a load only if waiting for a worker that
   has the adapter costs more.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cache_index import WorkerId
from gateway.backends.backend import Call, WorkerBackend, whole
from gateway.backends.engine_metrics import EngineKind, Observation
from gateway.models.adapters.adapter import Adapter
from gateway.models.adapters.wire import is_loaded_now, is_unloaded_now, load_call, unload_call
from gateway.protocol.errors import AdapterMissing, UpstreamError
from routing.adapter_residency import AdapterResidency
from routing.fleet import Fleet
from routing.load_price import LoadPrice

_log = logging.getLogger(__name__)

LISTED_EVERY_S = 0.5
"""Minimum seconds between two requests for a worker's list of adapters."""
ROOM_EVERY_S = 0.05
"""Seconds between two checks whether another adapter fits on a worker whose adapters are all in use."""
NO_ROOM = "it already holds the maximum number of adapters, and all are in use"
SAID_BYTES = 200
"""Maximum number of bytes of a worker's error message in the log."""


@dataclass(frozen=True, slots=True)
class AdapterTimeouts:
    load_s: float = 1.0
    """Assumed number of seconds for loading an adapter, until the first load is measured."""
    load_timeout_s: float = 60.0
    retry_s: float = 30.0
    """Seconds for which a worker that failed to load an adapter is not asked again to load it."""


@dataclass(frozen=True, slots=True)
class ServedAdapter:
    """Model that is a LoRA adapter, with the workers that serve it."""

    model: str
    adapter: Adapter
    fleet: Fleet
    addresses: Mapping[WorkerId, str]
    """Address of each worker. Workers with the same address are one process."""


class AdapterRegistry:
    """State of all LoRA adapters on all workers. *clock* returns monotonic seconds."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._patience = AdapterTimeouts()
        self._residency = AdapterResidency()
        self._prices: dict[str, LoadPrice] = {}
        self._subjects: dict[str, ServedAdapter] = {}
        self._at: dict[str, list[ServedAdapter]] = {}
        self._engines: dict[str, EngineKind] = {}
        self._loads: dict[tuple[str, str], asyncio.Future[str | None]] = {}
        self._listed_at: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._failed_until: dict[tuple[str, str], float] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.counters: Counter[tuple[str, str]] = Counter()
        """Number of adapter loads and unloads since startup, by model and outcome: ``loaded``, ``failed``, ``no_room``,
        ``unloaded``.
        """

    def attend(self, subjects: Iterable[ServedAdapter], patience: AdapterTimeouts) -> None:
        """Serve only the adapters of *subjects* from now on. The known state of the remaining workers is kept."""
        self._patience = patience
        self._subjects = {subject.model: subject for subject in subjects}
        self._at = defaultdict(list)
        for subject in self._subjects.values():
            self._prices.setdefault(subject.adapter.base, LoadPrice(patience.load_s))
            for address in dict.fromkeys(subject.addresses.values()):
                self._at[address].append(subject)
        self._residency.forget(self._at)
        self._engines = {address: engine for address, engine in self._engines.items() if address in self._at}
        for address in self._at:
            self._reprice(address)

    async def run(self) -> None:
        """Load requested LoRA adapters until canceled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.get_running_loop().create_future()

    def __iter__(self) -> Iterator[ServedAdapter]:
        return iter(self._subjects.values())

    def load_s(self, base: str) -> float | None:
        """Return the expected seconds for loading an adapter of the model *base*, or None if it has no adapters."""
        price = self._prices.get(base)
        return None if price is None else price.load_s

    # ---- what is known

    def wants_list(self, address: str) -> bool:
        """Return whether to ask the worker at *address* for its adapters. Several models can ask the same worker."""
        return address in self._at and self._clock() - self._listed_at.get(address, float("-inf")) >= LISTED_EVERY_S

    def listed(self, address: str, adapters: Sequence[str], asked_at: float) -> None:
        """Record the *adapters* that the worker at *address* listed at the time *asked_at*."""
        self._listed_at[address] = asked_at
        self._residency.listed(address, adapters, asked_at)
        self._reprice(address)

    def observed(self, address: str, observation: Observation) -> None:
        """Record the engine of the worker at *address*, and the adapters in its metrics."""
        reading = observation.reading
        if address in self._at and reading.engine is not None:
            self._engines[address] = reading.engine
        if address in self._at and reading.adapters:
            self._residency.seen(address, reading.adapters, observation.read_at)
            self._reprice(address)

    def holds(self, address: str, adapter: Adapter) -> bool | None:
        """Return whether the worker at *address* has loaded *adapter*, or None if that is unknown."""
        return self._residency.holds(address, adapter.name)

    def used(self, address: str, adapter: Adapter) -> None:
        """Record that a request for *adapter* is sent to the worker at *address*."""
        self._residency.used(address, adapter.name, self._clock())

    def refused(self, address: str, adapter: Adapter) -> None:
        """Record that the worker at *address* does not have *adapter*."""
        self._residency.lost(address, adapter.name, self._clock())
        self._reprice(address)

    # ---- getting it there

    async def bring(self, subject: ServedAdapter, backend: WorkerBackend, *, waits: bool = False) -> None:
        """Ask *backend* to load the adapter of *subject*, unless it has the adapter already.

        With *waits*, wait for room if all adapters on *backend* are in use, for at most the load timeout.

        Raises:
            AdapterMissing: if *backend* may not load the adapter, or failed to load it.
        """
        adapter = subject.adapter
        key = backend.url, adapter.name
        load = self._loads.get(key)
        is_own = load is None
        if load is None:
            why = self._why_not(adapter, backend.url)
            if why is not None:
                raise AdapterMissing(f"worker {backend.id} does not have the adapter {adapter.name!r}, {why}")
            assert self._tasks is not None, "tasks run while requests are served"
            load = self._loads[key] = self._tasks.create_task(self._loaded(subject, backend, waits=waits))
        why = await asyncio.shield(load)
        if why == NO_ROOM and waits and not is_own:
            await self.bring(subject, backend, waits=True)
        elif why is not None:
            raise AdapterMissing(f"worker {backend.id} did not load the adapter {adapter.name!r}: {why}")

    def _why_not(self, adapter: Adapter, address: str) -> str | None:
        if not adapter.is_loadable:
            return "which is not loaded on demand"
        if self._clock() < self._failed_until.get((address, adapter.name), float("-inf")):
            return "which failed to load recently"
        return None

    async def _loaded(self, subject: ServedAdapter, backend: WorkerBackend, *, waits: bool) -> str | None:
        """Load the LoRA adapter on the worker. Return the reason for a failure, or None."""
        adapter, address = subject.adapter, backend.url
        try:
            why = await self._done(subject, backend, waits=waits)
        finally:
            del self._loads[address, adapter.name]
        if why == NO_ROOM:
            self.counters[subject.model, "no_room"] += 1
        elif why is not None:
            self.counters[subject.model, "failed"] += 1
            _log.warning("worker %s did not load the adapter %s: %s", backend.id, adapter.name, why)
            self._failed_until[address, adapter.name] = self._clock() + self._patience.retry_s
        self._reprice(address)
        return why

    async def _done(self, subject: ServedAdapter, backend: WorkerBackend, *, waits: bool) -> str | None:
        adapter, waited_s = subject.adapter, 0.0
        while True:
            async with self._locks[backend.url]:
                if self._residency.holds(backend.url, adapter.name):
                    return None
                why = await self._room_for(adapter, backend)
                if why is None:
                    why = await self._load(subject, backend)
            if why != NO_ROOM or not waits or waited_s >= self._patience.load_timeout_s:
                return why
            await asyncio.sleep(ROOM_EVERY_S)
            waited_s += ROOM_EVERY_S

    async def _load(self, subject: ServedAdapter, backend: WorkerBackend) -> str | None:
        adapter, began = subject.adapter, self._clock()
        call = load_call(adapter.name, adapter.path or "", self._engines.get(backend.url))
        try:
            status, said = await self._ask(backend, call)
        except (UpstreamError, TimeoutError) as error:
            return str(error) or f"loading took longer than {self._patience.load_timeout_s:g} s"
        if not is_loaded_now(status, said):
            return f"{status} {said[:SAID_BYTES].decode(errors='replace')}"
        now = self._clock()
        self._residency.loaded(backend.url, adapter.name, now)
        if status == 200:
            self.counters[subject.model, "loaded"] += 1
            self._prices[adapter.base].learn(now - began)
            _log.info("worker %s has loaded the adapter %s in %.2f s", backend.id, adapter.name, now - began)
            for address in self._at:
                self._reprice(address)
        return None

    async def _room_for(self, adapter: Adapter, backend: WorkerBackend) -> str | None:
        """Unload the least recently used adapters until *adapter* fits. Return the reason for a failure, or None."""
        address = backend.url
        while adapter.max_per_worker is not None and len(self._residency.held(address)) >= adapter.max_per_worker:
            idle = {each.adapter.name: each for each in self._at.get(address, ()) if _is_idle(each, address)}
            name = self._residency.oldest(address, idle)
            if name is None:
                return NO_ROOM
            try:
                status, said = await self._ask(backend, unload_call(name, self._engines.get(address)))
            except (UpstreamError, TimeoutError) as error:
                return f"another adapter could not be unloaded: {error}"
            if not is_unloaded_now(status):
                return f"another adapter could not be unloaded: {status} {said[:SAID_BYTES].decode(errors='replace')}"
            self._residency.lost(address, name, self._clock())
            self.counters[idle[name].model, "unloaded"] += 1
            _log.info("worker %s has unloaded the adapter %s", backend.id, name)
            self._reprice(address)
        return None

    async def _ask(self, backend: WorkerBackend, call: Call) -> tuple[int, bytes]:
        async with asyncio.timeout(self._patience.load_timeout_s):
            reply = await backend.send(call)
            try:
                return reply.status, await whole(reply)
            finally:
                await reply.aclose()

    # ---- what follows from it

    def _reprice(self, address: str) -> None:
        """Update the extra cost of requests to the worker at *address*."""
        now = self._clock()
        for subject in self._at.get(address, ()):
            adapter = subject.adapter
            seconds = self._prices[adapter.base].price_s(
                holds=self._residency.holds(address, adapter.name),
                loadable=adapter.is_loadable,
                failed=now < self._failed_until.get((address, adapter.name), float("-inf")),
            )
            for worker, at in subject.addresses.items():
                if at == address:
                    subject.fleet.members.set_adapter_penalty(worker, seconds)


def _is_idle(subject: ServedAdapter, address: str) -> bool:
    """Return whether an adapter can be unloaded, because it is not in use and the gateway can load it again."""
    if not subject.adapter.is_loadable:
        return False
    return not any(
        subject.fleet.bookings.own_in_flight(worker) for worker, at in subject.addresses.items() if at == address
    )
