"""An application under granian, embedded in this process."""

import asyncio
import logging
import socket
from collections.abc import Callable, MutableMapping
from typing import Any, Protocol

import uvloop

from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.listener import BACKLOG, ServerError
from gateway.server.stop_signals import handled_by
from gateway.settings import ServerSettings, Settings

_log = logging.getLogger(__name__)


class _Embedded(Protocol):
    """What we use of granian's embeddable server."""

    async def serve(self) -> None: ...
    def stop(self) -> None: ...


def run_on_granian(app: App, settings: Settings, listener: socket.socket, on_started: Callable[[], None]) -> None:
    """Serve *app* on the address of *listener*, which is closed, until a stop signal.

    Raises:
        ServerError: it cannot start, or ended by itself.
    """
    server = settings.server
    if server.port == 0:
        raise ServerError("granian needs a port of its own: server.port 0 works with uvicorn only.")
    ip = str(listener.getsockname()[0])
    listener.close()  # granian opens its own; that this one could be bound has shown that the port is free
    started = asyncio.Event()
    embedded = _embedded(_noting_start(app, started), server, ip)

    async def accept() -> None:
        await started.wait()
        await _until_it_listens(ip, server.port)
        on_started()

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            embedded.stop()
            patience.reschedule(loop.time() + server.shutdown_grace_s)

        async with asyncio.TaskGroup() as group:
            accepting = group.create_task(accept())
            try:
                async with asyncio.timeout(None) as patience:
                    with handled_by(lambda *_: loop.call_soon_threadsafe(stop)):
                        await embedded.serve()
            except TimeoutError:
                _log.warning("Requests that still ran %d s after the stop were cut.", server.shutdown_grace_s)
            accepting.cancel()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(run())
        except* Exception as faults:
            if not started.is_set():
                raise ServerError("The application did not start; its error is above.") from faults
            raise ServerError(f"granian ended: {faults.exceptions[0]}.") from faults


def _embedded(app: App, server: ServerSettings, ip: str) -> _Embedded:
    """The server granian, in this process, with one thread for I/O.

    Its bounds come near ours: the buffer holds a request's head, the wait for a head is also the longest idle time.
    """
    try:
        from granian.constants import Interfaces  # noqa: PLC0415 - an extra, needed on this path only
        from granian.http import HTTP1Settings  # noqa: PLC0415
        from granian.log import LogLevels  # noqa: PLC0415
        from granian.server.embed import Server  # noqa: PLC0415
    except ImportError as fault:
        raise ServerError("granian is not installed: pip install 'warmgate[granian]'.") from fault
    embedded: _Embedded = Server(
        app,
        address=ip,
        port=server.port,
        interface=Interfaces.ASGI,
        websockets=False,
        backlog=BACKLOG,
        backpressure=server.max_connections,
        http1_settings=HTTP1Settings(
            header_read_timeout=server.keep_alive_s * 1000, max_buffer_size=server.max_header_bytes
        ),
        log_level=LogLevels.error,
        # granian sets up logging to stdout; an incremental configuration leaves ours alone.
        log_dictconfig={"incremental": True, "handlers": {}, "loggers": {"_granian": {"propagate": True}}},
    )
    return embedded


def _noting_start(app: App, started: asyncio.Event) -> App:
    """*app*, setting *started* when its lifespan has begun."""

    async def noting(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return

        answered = False

        async def send_noting(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                started.set()

        try:
            await app(scope, receive, send_noting)
        except Exception:
            # Granian takes an application that raises here for one without a lifespan, and serves it all the same.
            if not answered:
                await send({"type": "lifespan.startup.failed", "message": ""})
            if started.is_set():
                _log.exception("The application's lifespan ended with an error.")
            raise

    return noting


async def _until_it_listens(ip: str, port: int) -> None:
    """Wait until a connection is accepted; granian does not say when it listens."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(ip, ip)  # noqa: S104 - compared, not bound
    while True:
        try:
            _, writer = await asyncio.open_connection(target, port)
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return
