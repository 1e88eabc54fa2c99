"""A simulated vLLM worker as a server: for a test's own event loop (`serving`), or as a program (`run`)."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import uvloop
from uvicorn.config import Config
from uvicorn.server import ServerState

from gateway.simulator.api import SimulatorApp
from gateway.simulator.blocks import BlockPool, BlockSink
from gateway.simulator.bodies import BodyReader
from gateway.simulator.connection import Connection, ConnectionProtocol
from gateway.simulator.control import Control
from gateway.simulator.exposition import Exposition
from gateway.simulator.faults import Faults
from gateway.simulator.generation import GenerationService
from gateway.simulator.journal import Journal
from gateway.simulator.options import SimulatorOptions
from gateway.simulator.realtime import RealtimeEngine

_BACKLOG = 2048  # uvicorn's


@asynccontextmanager
async def serving(options: SimulatorOptions, *, sink: BlockSink | None = None) -> AsyncIterator[str]:
    """A worker on the running event loop; yields its base URL, without a trailing slash.

    Leaving ends it as SIGTERM ends vLLM: at once, connections are cut. *sink* hears of stored and removed blocks.

    Raises:
        OSError: the address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    listener = socket.create_server((options.host, options.port), backlog=_BACKLOG, family=_family(options.host))
    pool = options.build_pool(sink)
    engine = RealtimeEngine(options.build_engine(pool), speed=options.speed)
    open_connections: set[Connection] = set()
    app = _build_app(options, pool=pool, engine=engine, open_connections=open_connections)
    config = Config(app, http=ConnectionProtocol, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()
    server = await loop.create_server(lambda: ConnectionProtocol(config, state, open_connections), sock=listener)
    try:
        yield _url(options.host, listener.getsockname()[1])
    finally:
        server.close()
        for connection in tuple(open_connections):
            await connection.abort()
        if state.tasks:
            await asyncio.wait(state.tasks)
        engine.close()
        await server.wait_closed()


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
    async with serving(options) as url:
        sys.stdout.write(f"ready: {url}\n")
        sys.stdout.flush()
        await stop.wait()


def _build_app(
    options: SimulatorOptions, *, pool: BlockPool, engine: RealtimeEngine, open_connections: set[Connection]
) -> SimulatorApp:
    """Where the parts of a worker meet."""
    faults, journal, started_at = Faults(), Journal(), _unix_s()
    exposition = Exposition(
        options.model,
        engine.load,
        cache_config={
            "block_size": str(options.block_size),
            "num_gpu_blocks": str(options.blocks),
            "enable_prefix_caching": "True",
        },
        started_at=started_at,
    )
    generation = GenerationService(
        model=options.model,
        block_size=options.block_size,
        engine=engine,
        faults=faults,
        journal=journal,
        exposition=exposition,
        unix=_unix_s,
    )
    return SimulatorApp(
        reader=BodyReader(options.model, options.context_tokens),
        generation=generation,
        control=Control(faults=faults, journal=journal, pool=pool, engine=engine, open_connections=open_connections),
        faults=faults,
        exposition=exposition,
        started_at=started_at,
    )


def _unix_s() -> float:
    return datetime.now(UTC).timestamp()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
