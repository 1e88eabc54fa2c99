"""Server of a simulated worker, either on a test's event loop (`serving`) or as a program (`run`)."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import uvloop
from uvicorn.config import Config
from uvicorn.server import ServerState

from engine_model.blocks import BlockSink, BothSinks
from simulator.assembly import assemble
from simulator.connection import Connection, ConnectionProtocol
from simulator.event_publisher import EventPublisher
from simulator.event_wire import HashSpelling, Notation, wire_of
from simulator.faults import Fault, Faults
from simulator.generation import GenerationService
from simulator.options import SimulatorOptions
from simulator.pulls import pulling
from simulator.ranks import Rank, Ranks
from simulator.realtime import RealtimeEngine
from simulator.roles import Role, role_of

_BACKLOG = 2048  # uvicorn's


@dataclass(frozen=True, slots=True)
class Worker:
    """Running worker with its address and a method to drain it."""

    url: str
    """Base URL of the worker, without a trailing slash."""
    faults: Faults
    generation: GenerationService

    async def drain(self, timeout_s: float) -> None:
        """Let running requests continue for up to *timeout_s* seconds, and abort requests that arrive in this time."""
        if timeout_s <= 0:
            return
        self.faults.set(Fault("shutting_down"))
        with suppress(TimeoutError):
            await asyncio.wait_for(self.generation.wait_idle(), timeout_s)


@asynccontextmanager
async def serving(options: SimulatorOptions, *, sink: BlockSink | None = None) -> AsyncIterator[str]:
    """Run a simulated worker on the current event loop, and yield its base URL without a trailing slash.

    At exit the worker ends at once and cuts all connections, like vLLM after SIGTERM. *sink* receives stored and
    removed blocks of the GPU, in addition to the events that *options* may enable.

    Raises:
        OSError: if an address cannot be bound. `filename` is the address of an event socket, if that failed.
    """
    async with _worker(options, sink) as worker:
        yield worker.url


def run(options: SimulatorOptions) -> None:
    """Serve as a worker until SIGINT or SIGTERM. One line on standard output reports when the worker is ready.

    Raises:
        OSError: if an address cannot be bound, as in `serving`.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_signal(options))


async def _serve_until_signal(options: SimulatorOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with _worker(options, None) as worker:
        sys.stdout.write(f"ready: {worker.url}\n")
        sys.stdout.flush()
        await stop.wait()
        await worker.drain(options.shutdown_timeout_s)


@asynccontextmanager
async def _worker(options: SimulatorOptions, sink: BlockSink | None) -> AsyncIterator[Worker]:
    with _listener(options) as listener, ExitStack() as publishers:
        host = listener.getsockname()[0]
        ranks = []
        for number in range(options.ranks):
            publisher = publishers.enter_context(_publisher(options, host, number))
            pool = options.build_pool(_sink_of(sink, publisher), publisher)
            engine = RealtimeEngine(options.build_engine(pool), speed=options.speed)
            ranks.append(Rank(number, pool, engine, publisher))
        first = ranks[0]
        async with (
            _role(options, host, first) as role,
            _served(options, Ranks(ranks, options.dialect, seed=str(_unix_s())), listener, role) as worker,
        ):
            yield worker


def _role(options: SimulatorOptions, host: str, rank: Rank) -> AbstractAsyncContextManager[Role | None]:
    """Return the context in which the worker exchanges KV blocks with other workers."""
    if options.pull_port is not None:
        timing = options.pull_timing
        return pulling(rank.pool, timing, host=host, port=options.pull_port, speed=options.speed)
    return role_of(
        *(options.role, options.half),
        dialect=options.dialect,
        host=host,
        pool=rank.pool,
        speed=options.speed,
        when_free=rank.engine.wake,
    )


@contextmanager
def _listener(options: SimulatorOptions) -> Iterator[socket.socket]:
    listener = socket.create_server((options.host, options.port), backlog=_BACKLOG, family=_family(options.host))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; asyncio sets it only where it knows
    with closing(listener):
        yield listener


@contextmanager
def _publisher(options: SimulatorOptions, host: str, rank: int) -> Iterator[EventPublisher | None]:
    if options.kv_events is None:
        yield None
        return
    usual: HashSpelling = "signed" if options.dialect == "sglang" else "int"
    notation = Notation(options.block_size, options.kv_events.hashes or usual, options.lora_modules)
    wire = wire_of(options.dialect, options.kv_events.format, notation)
    reported = options.kv_events.of_rank(rank)
    with closing(EventPublisher(reported, wire=wire, host=host, unix=_clock_of(options), rank=rank)) as publisher:
        publisher.sockets.open()
        yield publisher


def _sink_of(sink: BlockSink | None, publisher: EventPublisher | None) -> BlockSink | None:
    if sink is None or publisher is None:
        return publisher if sink is None else sink
    return BothSinks(sink, publisher)


@asynccontextmanager
async def _served(
    options: SimulatorOptions, ranks: Ranks, listener: socket.socket, role: Role | None
) -> AsyncIterator[Worker]:
    loop = asyncio.get_running_loop()
    open_connections: set[Connection] = set()
    parts = assemble(options, ranks=ranks, open_connections=open_connections, unix=_clock_of(options), role=role)
    config = Config(parts.app, http=ConnectionProtocol, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()
    server = await loop.create_server(lambda: ConnectionProtocol(config, state, open_connections), sock=listener)
    try:
        yield Worker(_url(options.host, listener.getsockname()[1]), parts.faults, parts.generation)
    finally:
        server.close()
        parts.freeze.end()
        for connection in tuple(open_connections):
            await connection.abort()
        if state.tasks:
            await asyncio.wait(state.tasks)
        for rank in ranks:
            rank.engine.close()
        await server.wait_closed()


def _unix_s() -> float:
    return datetime.now(UTC).timestamp()


def _clock_of(options: SimulatorOptions) -> Callable[[], float]:
    """Return the worker's clock, in seconds since 1970."""
    return lambda: _unix_s() + options.defects.clock_skew_s


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
