"""Which adapters stand where, and getting one there: shared by all models that are adapters.

1. A load that has begun goes on, whoever waits for it leaves; whoever wants the same one there waits for that.
2. On one worker one thing happens at a time: so there is room for what is loaded, and nothing is unloaded twice.
3. What is known becomes the price that a request pays for a worker without its adapter. Nobody waits for a load that is
   not needed: a request goes where its adapter is, unless waiting there costs more than the load.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cache_index import WorkerId
from gateway.adapters.adapter import Adapter
from gateway.adapters.wire import is_loaded_now, is_unloaded_now, load_call, unload_call
from gateway.attempt import whole
from gateway.backends.backend import Call, WorkerBackend
from gateway.engine_metrics import Engine, Observation
from gateway.errors import AdapterMissing, UpstreamError
from routing.fleet import Fleet
from routing.load_price import LoadPrice
from routing.residents import Residents

_log = logging.getLogger(__name__)

LISTED_EVERY_S = 0.5
"""A worker is asked what it has with its metrics, but not so soon again on behalf of another model."""
ROOM_EVERY_S = 0.05
"""Between two looks for room, where all that a worker has is in use."""
NO_ROOM = "it has as many as it may, and all are in use"
SAID_BYTES = 200
"""Of what a worker said when it did not load something, that goes into the log."""


@dataclass(frozen=True, slots=True)
class Patience:
    load_s: float = 1.0
    """Believed until the first load."""
    load_timeout_s: float = 60.0
    retry_s: float = 30.0
    """A worker that failed to load an adapter is left alone with it for so long."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that is an adapter, with the workers that serve it."""

    model: str
    adapter: Adapter
    fleet: Fleet
    addresses: Mapping[WorkerId, str]
    """Of its workers. Those at one address are one process."""


class Shelf:
    """Knows of all adapters. *clock* is monotonic."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._patience = Patience()
        self._residents = Residents()
        self._prices: dict[str, LoadPrice] = {}
        self._subjects: dict[str, Subject] = {}
        self._at: dict[str, list[Subject]] = {}
        self._engines: dict[str, Engine] = {}
        self._loads: dict[tuple[str, str], asyncio.Future[str | None]] = {}
        self._listed_at: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._failed_until: dict[tuple[str, str], float] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.tally: Counter[tuple[str, str]] = Counter()
        """What was done, by model and by ``loaded``, ``failed``, ``no_room`` or ``unloaded``; it never shrinks."""

    def attend(self, subjects: Iterable[Subject], patience: Patience) -> None:
        """These are the adapters from now on, and no others. What is known of workers that stay is kept."""
        self._patience = patience
        self._subjects = {subject.model: subject for subject in subjects}
        self._at = defaultdict(list)
        for subject in self._subjects.values():
            self._prices.setdefault(subject.adapter.base, LoadPrice(patience.load_s))
            for address in dict.fromkeys(subject.addresses.values()):
                self._at[address].append(subject)
        self._residents.forget(self._at)
        self._engines = {address: engine for address, engine in self._engines.items() if address in self._at}
        for address in self._at:
            self._reprice(address)

    async def run(self) -> None:
        """Load what is asked for, until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.get_running_loop().create_future()

    def __iter__(self) -> Iterator[Subject]:
        return iter(self._subjects.values())

    def load_s(self, base: str) -> float | None:
        """How long an adapter of *base* is believed to take; None: it has none."""
        price = self._prices.get(base)
        return None if price is None else price.load_s

    # ---- what is known

    def wants_list(self, address: str) -> bool:
        """Whether the worker at *address* should be asked what it has; several models may ask on its behalf."""
        return address in self._at and self._clock() - self._listed_at.get(address, float("-inf")) >= LISTED_EVERY_S

    def listed(self, address: str, adapters: Sequence[str], asked_at: float) -> None:
        """The worker at *address*, asked at *asked_at*, told all adapters that it has."""
        self._listed_at[address] = asked_at
        self._residents.listed(address, adapters, asked_at)
        self._reprice(address)

    def observed(self, address: str, observation: Observation) -> None:
        """What its engine told of itself, and so which engine it is."""
        reading = observation.reading
        if address in self._at and reading.engine is not None:
            self._engines[address] = reading.engine
        if address in self._at and reading.adapters:
            self._residents.seen(address, reading.adapters, observation.read_at)
            self._reprice(address)

    def holds(self, address: str, adapter: Adapter) -> bool | None:
        """Whether the worker at *address* has it; None: nobody knows."""
        return self._residents.holds(address, adapter.name)

    def used(self, address: str, adapter: Adapter) -> None:
        """A request for it goes to *address*."""
        self._residents.used(address, adapter.name, self._clock())

    def refused(self, address: str, adapter: Adapter) -> None:
        """The worker at *address* says that it does not have it."""
        self._residents.lost(address, adapter.name, self._clock())
        self._reprice(address)

    # ---- getting it there

    async def bring(self, subject: Subject, backend: WorkerBackend, *, waits: bool = False) -> None:
        """Let *backend* load the adapter of *subject*, if it does not have it by then.

        One that *waits* has nowhere else to go: where there is no room because all that is there is in use, it waits
        for some, for as long as a load may take.

        Raises:
            AdapterMissing: it may not, or could not.
        """
        adapter = subject.adapter
        key = backend.url, adapter.name
        load = self._loads.get(key)
        is_own = load is None
        if load is None:
            why = self._why_not(adapter, backend.url)
            if why is not None:
                raise AdapterMissing(f"{backend.id} does not have the adapter {adapter.name!r}, {why}")
            assert self._tasks is not None, "it runs as long as requests are served"
            load = self._loads[key] = self._tasks.create_task(self._loaded(subject, backend, waits=waits))
        why = await asyncio.shield(load)
        if why == NO_ROOM and waits and not is_own:
            await self.bring(subject, backend, waits=True)
        elif why is not None:
            raise AdapterMissing(f"{backend.id} did not load the adapter {adapter.name!r}: {why}")

    def _why_not(self, adapter: Adapter, address: str) -> str | None:
        if not adapter.is_loadable:
            return "and it is not loaded on demand"
        if self._clock() < self._failed_until.get((address, adapter.name), float("-inf")):
            return "and failed to load it a short while ago"
        return None

    async def _loaded(self, subject: Subject, backend: WorkerBackend, *, waits: bool) -> str | None:
        """Why it failed; None: it is there."""
        adapter, address = subject.adapter, backend.url
        try:
            why = await self._done(subject, backend, waits=waits)
        finally:
            del self._loads[address, adapter.name]
        if why == NO_ROOM:
            self.tally[subject.model, "no_room"] += 1
        elif why is not None:
            self.tally[subject.model, "failed"] += 1
            _log.warning("worker %s did not load the adapter %s: %s", backend.id, adapter.name, why)
            self._failed_until[address, adapter.name] = self._clock() + self._patience.retry_s
        self._reprice(address)
        return why

    async def _done(self, subject: Subject, backend: WorkerBackend, *, waits: bool) -> str | None:
        adapter, waited_s = subject.adapter, 0.0
        while True:
            async with self._locks[backend.url]:
                if self._residents.holds(backend.url, adapter.name):
                    return None
                why = await self._room_for(adapter, backend)
                if why is None:
                    why = await self._load(subject, backend)
            if why != NO_ROOM or not waits or waited_s >= self._patience.load_timeout_s:
                return why
            await asyncio.sleep(ROOM_EVERY_S)
            waited_s += ROOM_EVERY_S

    async def _load(self, subject: Subject, backend: WorkerBackend) -> str | None:
        adapter, began = subject.adapter, self._clock()
        call = load_call(adapter.name, adapter.path or "", self._engines.get(backend.url))
        try:
            status, said = await self._ask(backend, call)
        except (UpstreamError, TimeoutError) as error:
            return str(error) or f"it took longer than {self._patience.load_timeout_s:g} s"
        if not is_loaded_now(status, said):
            return f"{status} {said[:SAID_BYTES].decode(errors='replace')}"
        now = self._clock()
        self._residents.loaded(backend.url, adapter.name, now)
        if status == 200:
            self.tally[subject.model, "loaded"] += 1
            self._prices[adapter.base].learn(now - began)
            _log.info("worker %s has loaded the adapter %s in %.2f s", backend.id, adapter.name, now - began)
            for address in self._at:
                self._reprice(address)
        return None

    async def _room_for(self, adapter: Adapter, backend: WorkerBackend) -> str | None:
        """Unload what was used longest ago until there is room; why there is none, if so."""
        address = backend.url
        while adapter.most_per_worker is not None and len(self._residents.held(address)) >= adapter.most_per_worker:
            idle = {each.adapter.name: each for each in self._at.get(address, ()) if _is_idle(each, address)}
            name = self._residents.oldest(address, idle)
            if name is None:
                return NO_ROOM
            try:
                status, said = await self._ask(backend, unload_call(name, self._engines.get(address)))
            except (UpstreamError, TimeoutError) as error:
                return f"there is no room: {error}"
            if not is_unloaded_now(status):
                return f"there is no room: {status} {said[:SAID_BYTES].decode(errors='replace')}"
            self._residents.lost(address, name, self._clock())
            self.tally[idle[name].model, "unloaded"] += 1
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
        """Tell the fleets what a request for their adapter costs more at *address*."""
        now = self._clock()
        for subject in self._at.get(address, ()):
            adapter = subject.adapter
            seconds = self._prices[adapter.base].of(
                holds=self._residents.holds(address, adapter.name),
                loadable=adapter.is_loadable,
                failed=now < self._failed_until.get((address, adapter.name), float("-inf")),
            )
            for worker, at in subject.addresses.items():
                if at == address:
                    subject.fleet.set_adapter_s(worker, seconds)


def _is_idle(subject: Subject, address: str) -> bool:
    """Whether it can be unloaded there: nobody uses it, and it could be loaded again."""
    if not subject.adapter.is_loadable:
        return False
    return not any(subject.fleet.own_in_flight(worker) for worker, at in subject.addresses.items() if at == address)
