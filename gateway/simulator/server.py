"""A simulated vLLM worker as a server: for a test's own event loop (`serving`), or as a program (`run`)."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import uvloop
from uvicorn.config import Config
from uvicorn.server import ServerState

from gateway.simulator.assembly import assemble
from gateway.simulator.blocks import BlockSink
from gateway.simulator.connection import Connection, ConnectionProtocol
from gateway.simulator.faults import Fault, Faults
from gateway.simulator.generation import GenerationService
from gateway.simulator.options import SimulatorOptions
from gateway.simulator.realtime import RealtimeEngine

_BACKLOG = 2048  # uvicorn's


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that serves: where, and how to let it finish."""

    url: str
    """Without a trailing slash."""
    faults: Faults
    generation: GenerationService

    async def drain(self, timeout_s: float) -> None:
        """Let running requests go on for *timeout_s* at most, and abort those that come meanwhile."""
        if timeout_s <= 0:
            return
        self.faults.set(Fault("shutting_down"))
        with suppress(TimeoutError):
            await asyncio.wait_for(self.generation.wait_idle(), timeout_s)


@asynccontextmanager
async def serving(options: SimulatorOptions, *, sink: BlockSink | None = None) -> AsyncIterator[str]:
    """A worker on the running event loop; yields its base URL, without a trailing slash.

    Leaving ends it as SIGTERM ends vLLM: at once, connections are cut. *sink* hears of stored and removed blocks.

    Raises:
        OSError: the address cannot be bound.
    """
    async with _worker(options, sink) as worker:
        yield worker.url


def run(options: SimulatorOptions) -> None:
    """Serve until SIGINT or SIGTERM; one line on standard output tells when the worker is ready.

    Raises:
        OSError: the address cannot be bound.
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
    loop = asyncio.get_running_loop()
    listener = socket.create_server((options.host, options.port), backlog=_BACKLOG, family=_family(options.host))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; asyncio sets it only where it knows
    pool = options.build_pool(sink)
    engine = RealtimeEngine(options.build_engine(pool), speed=options.speed)
    open_connections: set[Connection] = set()
    parts = assemble(options, pool=pool, engine=engine, open_connections=open_connections, unix=_unix_s)
    config = Config(parts.app, http=ConnectionProtocol, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()
    server = await loop.create_server(lambda: ConnectionProtocol(config, state, open_connections), sock=listener)
    try:
        yield Worker(_url(options.host, listener.getsockname()[1]), parts.faults, parts.generation)
    finally:
        server.close()
        for connection in tuple(open_connections):
            await connection.abort()
        if state.tasks:
            await asyncio.wait(state.tasks)
        engine.close()
        await server.wait_closed()


def _unix_s() -> float:
    return datetime.now(UTC).timestamp()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
