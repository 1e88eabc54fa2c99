"""Start, watch and replace the processes of one gateway, which serve the same port.

1. Each process has a listening socket of its own on the common port (SO_REUSEPORT), so that the kernel distributes new
   connections evenly. The supervisor holds a copy of every socket. If a process dies, new connections wait in its
   socket for its successor, and none is refused.
2. Process 1 starts first and alone, so that an error at the start is reported once. It serves the admin port.
3. A process that ends is replaced. A process that ends again soon after it started is replaced after a delay.
4. A process that begins to stop gets its successor at once, and serves its running requests in the meantime.
5. If the processes count limits in a table, each has a seat of its own. When a process has ended, however it ended, the
   supervisor gives back what its seat holds, and another process can take the seat.
"""

import asyncio
import logging
import secrets
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

from gateway.app.processes.child import Child, exit_text
from gateway.app.processes.message_hub import MessageHub
from gateway.app.processes.messages import Assignment, Message
from gateway.app.processes.store_server import StoreServer
from gateway.server.listener import ServerError
from gateway.telemetry.merged_metrics import MergedMetrics
from gateway.tenancy.quota.meter_table import MeterTable
from gateway.workers.replicas.shared_key import KEY_BYTES

_log = logging.getLogger(__name__)

STEADY_S: Final = 60.0
"""Seconds after which a process counts as steady, so that its successor starts at once."""
LONGEST_WAIT_S: Final = 10.0
"""Maximum seconds until a process is replaced that ends again and again."""
END_S: Final = 10.0
"""Seconds beyond the grace period that a process has to end before it is killed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Processes that the supervisor runs, and their sockets."""

    command: Sequence[str]
    """Command line of a process, without the option `--control`."""
    listeners: Sequence[socket.socket]
    """One bound socket for each process."""
    admin: socket.socket | None
    probes: socket.socket | None
    variables: Callable[[int], dict[str, str]]
    """Function that returns the environment variables that override settings of the process with a number."""
    is_store_hidden: bool
    table: MeterTable | None
    """Table in which the processes count limits, or None if a server counts them."""
    lock: int | None
    """File descriptor of the lock of the store's file. Processes that outlive their supervisor keep the lock."""
    stop_s: float
    """Seconds that a process may take to stop."""
    validate: Callable[[], bool]
    """Function that returns whether the configuration is valid, and logs its errors."""
    on_started: Callable[[], None]


@dataclass(slots=True)
class _Place:
    """Place of one process, which its successors take over."""

    number: int
    current: Child | None = None
    wait_s: float = 0.0


@dataclass(slots=True)
class _State:
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    children: set[Child] = field(default_factory=set)
    seats: set[int] = field(default_factory=set)
    """Seats that are taken."""
    drains: dict[tuple[str, str], Message] = field(default_factory=dict)
    """Workers that an operator drains, which each new process has to know."""
    ended: MergedMetrics = field(default_factory=MergedMetrics)


class Supervisor:
    """Supervisor of the processes of *plan*. *store* is the server that it runs for them, if any."""

    def __init__(self, plan: Plan, store: StoreServer | None) -> None:
        self._plan = plan
        self._store = store
        self._state = _State()
        self._hub = MessageHub()
        self._hub_key = secrets.token_hex(KEY_BYTES)
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Run the gateway until SIGINT or SIGTERM.

        Raises:
            ServerError: if a process cannot start.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        places = [_Place(each + 1) for each in range(len(self._plan.listeners))]
        try:
            async with self._tasks as tasks:
                await self._start_all(places)
                if not self._state.stopping.is_set():
                    self._plan.on_started()
                keeping = [tasks.create_task(self._keep(place)) for place in places]
                watching = None if self._store is None else tasks.create_task(self._keep_store(self._store))
                await asyncio.wait(keeping)
                await self._end_all()
                if watching is not None:
                    watching.cancel()
        except* ServerError as faults:
            raise faults.exceptions[0] from None
        finally:
            self._hub.close()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    async def _start_all(self, places: Sequence[_Place]) -> None:
        """Start the first process, and then the others. If one of them cannot start, stop all.

        Raises:
            ServerError: if a process ended before it served requests.
        """
        first, *others = places
        try:
            await self._start(first)
            await asyncio.gather(*(self._start(place) for place in others))
        except ServerError:
            self._state.stopping.set()
            for child in self._state.children:
                child.signal(signal.SIGTERM)
            await self._end_all()
            raise

    async def _start(self, place: _Place) -> None:
        """Start a process, and wait until it serves requests.

        Raises:
            ServerError: if it ended before.
        """
        if self._state.stopping.is_set():
            return
        plan, at = self._plan, place.number - 1
        seat = self._free_seat()
        self._state.seats.add(seat)
        with await self._hub.connect() as hub:
            child, reader = await Child.start(
                plan.command,
                Assignment(
                    place.number,
                    plan.variables(place.number),
                    plan.is_store_hidden,
                    listener=plan.listeners[at].fileno(),
                    admin=None if plan.admin is None or at else plan.admin.fileno(),
                    probes=None if plan.probes is None else plan.probes.fileno(),
                    table=None if plan.table is None else plan.table.descriptor,
                    seat=seat,
                    hub=None if plan.table is None else hub.fileno(),
                    hub_key=self._hub_key,
                ),
                keeps=[] if plan.lock is None else [plan.lock],
            )
        place.current = child
        self._state.children.add(child)
        if self._state.stopping.is_set():
            child.signal(signal.SIGTERM)
        listening = self._tasks.create_task(self._listen(child, reader))
        started = self._tasks.create_task(child.started.wait())
        await asyncio.wait((listening, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if not child.started.is_set() and not self._state.stopping.is_set():
            raise ServerError(
                f"Process {place.number} could not start: it {exit_text(listening.result())}. "
                "Its error is logged above."
            )
        _log.info("Process %d with the process id %d is ready.", child.number, child.pid)
        for drain in self._state.drains.values():
            child.send(**drain)

    def _free_seat(self) -> int:
        """Return a seat that no process has.

        Raises:
            ServerError: if all seats are taken, because many former processes have not ended yet.
        """
        for seat in range(seats_of(len(self._plan.listeners))):
            if seat not in self._state.seats:
                return seat
        raise ServerError("No process can start, because too many former processes have not finished their requests.")

    async def _listen(self, child: Child, reader: asyncio.StreamReader) -> int:
        code = await child.listen(reader, self._on_message)
        if self._plan.table is not None:
            self._plan.table.reclaim(child.seat)
        self._state.seats.discard(child.seat)
        self._state.children.discard(child)
        self._state.ended.end(child.exposition)
        if not self._state.stopping.is_set():
            _log.warning("Process %d %s.", child.number, exit_text(code))
        return code

    async def _keep(self, place: _Place) -> None:
        """Replace the process of *place* whenever it ends, until the gateway stops."""
        loop, stopping = asyncio.get_running_loop(), self._state.stopping
        while not stopping.is_set():
            since = loop.time()
            if place.current is not None:
                await place.current.leaving.wait()
            if stopping.is_set():
                return
            place.wait_s = 0.0 if loop.time() - since > STEADY_S else min(LONGEST_WAIT_S, 2 * place.wait_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(place.wait_s):
                    await stopping.wait()
            place.wait_s = place.wait_s or 0.5
            try:
                await self._start(place)
            except ServerError as fault:
                _log.error("%s It is started again.", fault)

    async def _keep_store(self, store: StoreServer) -> None:
        while True:
            code = await store.ended()
            _log.error("The store server %s. It is started again.", exit_text(code))
            await asyncio.sleep(1)
            with suppress(ServerError):
                await store.start()

    async def _end_all(self) -> None:
        """Wait until all processes have ended, and kill those that do not end in time."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._plan.stop_s + END_S
        while children := list(self._state.children):
            try:
                async with asyncio.timeout_at(due):
                    await children[0].ended.wait()
            except TimeoutError:
                for child in children:
                    _log.error("Process %d did not end in time, and is killed.", child.number)
                    child.signal(signal.SIGKILL)
                due = loop.time() + END_S

    def _stop(self, number: int) -> None:
        """Pass a stop signal on. From now on the sockets belong to the processes, which close them when they stop."""
        self._state.stopping.set()
        for bound in (*self._plan.listeners, self._plan.admin, self._plan.probes):
            if bound is not None:
                bound.close()
        for child in self._state.children:
            child.signal(number)

    def _reload(self) -> None:
        """Reload the configuration in all processes, or in none if it is invalid."""
        if self._plan.validate():
            self._send_all("reload")

    def _send_all(self, kind: str, *, but: Child | None = None, **fields: object) -> None:
        for child in self._state.children:
            if child is not but and child.serves:
                child.send(kind, **fields)

    def _on_message(self, child: Child, message: Message) -> None:
        match message["kind"]:
            case "merge":
                self._tasks.create_task(self._merge(child, message["id"]))
            case "reloaded":
                self._send_all("reload", but=child)
            case "drain":
                key = message["model"], message["worker"]
                if message["drains"]:
                    self._state.drains[key] = message
                else:
                    self._state.drains.pop(key, None)
                self._send_all(**message, but=child)

    async def _merge(self, child: Child, number: int) -> None:
        """Send the merged metrics of all processes to *child*, which asked for them."""
        children = list(self._state.children)
        await asyncio.gather(*(each.refresh() for each in children))
        running = [each.exposition for each in children if each in self._state.children]
        child.send("merged", id=number, text=self._state.ended.merged(running).decode())


def seats_of(processes: int) -> int:
    """Return the number of seats for *processes* processes, with those that finish their requests while their
    successors run.
    """
    return 2 * processes + 2


async def supervised(plan: Plan, store: StoreServer | None, initialize: Callable[[], object]) -> None:
    """Run the server *store* and the processes of *plan* until a signal ends them. *initialize* is called when the
    server answers.

    Raises:
        ServerError: if the store or a process cannot start.
    """
    async with AsyncExitStack() as exits:
        if store is not None:
            exits.push_async_callback(store.aclose)
            await store.start()
            await asyncio.to_thread(initialize)
        await Supervisor(plan, store).run()
