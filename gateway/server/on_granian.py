"""An application under granian, embedded in this process.

At a stop it closes idle connections at once, also where a request is on its way: a client may see its connection closed
without an answer. Our own connections (`connection`) do not do that.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, MutableMapping
from typing import Any, Protocol

import uvloop

from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.listener import BACKLOG, ServerError
from gateway.server.stop import CUT_S, Stop
from gateway.server.stop_signals import handled_by
from gateway.settings import ServerSettings, Settings

_log = logging.getLogger(__name__)

_LOOK_S = 0.05  # between two looks at whether it is time


class _Embedded(Protocol):
    """What we use of granian's embeddable server."""

    async def serve(self) -> None: ...
    def stop(self) -> None: ...


def run_on_granian(
    app: App, settings: Settings, listener: socket.socket, on_started: Callable[[], None], stop: Stop
) -> None:
    """Serve *app* on the address of *listener*, which is closed, until *stop* is due.

    Raises:
        ServerError: it cannot start, or ended by itself.
    """
    server = settings.server
    if server.port == 0:
        raise ServerError("granian needs a port of its own: server.port 0 works with uvicorn only.")
    ip = str(listener.getsockname()[0])
    listener.close()  # granian opens its own; that this one could be bound has shown that the port is free
    started = asyncio.Event()
    requests = _Requests(app, stop)
    embedded = _embedded(_noting_start(requests, started), server, ip)

    async def accept() -> None:
        await started.wait()
        await _until_it_listens(ip, server.port)
        on_started()

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(accept())]
            with handled_by(lambda number, _: stop.signalled(number)):
                serving = group.create_task(embedded.serve())
                helpers.append(group.create_task(_end(embedded, serving, requests, stop, server.shutdown_grace_s)))
                await asyncio.wait([serving])
            for helper in helpers:
                helper.cancel()

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


class _Requests:
    """*app*, with its requests in sight; while *stop* is asked for, every answer is the last on its connection."""

    def __init__(self, app: App, stop: Stop) -> None:
        self._app = app
        self._stop = stop
        self._running: set[asyncio.Task[object]] = set()
        self.have_ended = False
        """All of them, so that the lifespan ends."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return

        async def send_last(message: Message) -> None:
            if self._stop.is_asked and message["type"] == "http.response.start":
                headers = [pair for pair in message.get("headers", ()) if pair[0] != b"connection"]
                message = {**message, "headers": [*headers, (b"connection", b"close")]}
            await send(message)

        task = asyncio.current_task()
        assert task is not None, "granian runs each request in one"
        self._running.add(task)
        try:
            await self._app(scope, receive, send_last)
        finally:
            self._running.discard(task)

    async def _live(self, scope: Message, receive: Receive, send: Send) -> None:
        async def receive_noting() -> Message:
            message = await receive()
            self.have_ended = message["type"] == "lifespan.shutdown"
            return message

        await self._app(scope, receive_noting, send)

    def cut(self) -> int:
        """Cancel all that run; how many they are."""
        for task in self._running:
            task.cancel()
        return len(self._running)


async def _end(
    embedded: _Embedded, serving: asyncio.Task[None], requests: _Requests, stop: Stop, grace_s: float
) -> None:
    """Wait until *stop* is due, then bring what is *serving* to its end."""
    while not (stop.is_due or serving.done()):  # which a signal sets, and that can set no event
        await asyncio.wait([serving], timeout=_LOOK_S)
    embedded.stop()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace_s
    while not (serving.done() or stop.is_forced or loop.time() >= deadline):
        await asyncio.wait([serving], timeout=_LOOK_S)
    if not serving.done():
        count = requests.cut()
        if count and not stop.is_forced:
            _log.warning("Requests that still ran %d s after the stop were cut: %d.", grace_s, count)
        await asyncio.wait([serving], timeout=CUT_S)  # no longer: a client may leave its answer unread
        if requests.have_ended and not stop.is_forced:
            await asyncio.wait([serving])
    serving.cancel()


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
