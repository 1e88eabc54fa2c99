"""A small application under the server: in this process, or as `python -m tests.gateway.server.harness <settings>`."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from gateway.app.announcements import announce_on_stdout
from gateway.app.serving import CreateApp, serve
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.listener import bind
from gateway.server.stop import SCOPE_KEY
from gateway.settings import Settings, build

T = TypeVar("T")

SOON_S = 0.2  # that a request still runs after the stop that it asked for


def settings(**server: Any) -> Settings:
    """With so few connections that they fit everywhere, which else would be a warning."""
    given = {"max_connections": 100, **server}
    return build({"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}], "server": given}, {})


def free_port() -> int:
    with closing(bind("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def create_app(_: Settings) -> App:
    """Answers ``ok`` and prints when its lifespan ends.

    On ``/SIGTERM`` and ``/SIGINT`` the server gets that signal, and the answer comes soon after; on ``/hangs`` it gets
    SIGTERM, and no answer comes, as on ``/waits``. A request that is cancelled says so a little later: in its answer,
    and by a line. On ``/busy`` it gets SIGTERM, and nothing happens for a second. ``/echo`` answers with the body that
    came, ``/stopping`` whether the server was asked to stop, ``/running`` how many other requests there are,
    ``/pid`` which process it is.
    """

    running = 0

    async def lifespan(receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        sys.stdout.write("lifespan ended\n")
        await send({"type": "lifespan.shutdown.complete"})

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal running
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        name = scope["path"].removeprefix("/")
        body = b"ok"
        if name == "echo":
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), message.get("more_body", False)
        elif name == "busy":
            signal.raise_signal(signal.SIGTERM)
            time.sleep(1.0)  # noqa: ASYNC251  # and nothing else happens
        elif name in ("pid", "running"):
            body = b"%d" % {"pid": os.getpid(), "running": running}[name]
        elif name == "stopping":
            body = b"yes" if scope["state"][SCOPE_KEY].is_requested else b"no"
        elif name:
            if name != "waits":
                signal.raise_signal(signal.SIGTERM if name == "hangs" else signal.Signals[name])
            running += 1
            try:
                await asyncio.sleep(SOON_S if name.startswith("SIG") else 60)
            except asyncio.CancelledError:
                await asyncio.sleep(SOON_S)  # there is something to settle
                sys.stdout.write("settled\n")
                body = b"cut"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    return app


def while_served(client: Callable[[str], T], server_settings: Settings, *, create_app: CreateApp = create_app) -> T:
    """What *client* gives back, called with the address in a thread of its own; it has to make the server stop."""

    def call(address: str) -> T:
        try:
            return client(address)
        except BaseException:
            os.kill(os.getpid(), signal.SIGTERM)
            raise

    answer: Future[T] | None = None
    with ThreadPoolExecutor(1) as thread:

        def announce(address: str) -> None:
            nonlocal answer
            announce_on_stdout(address)
            answer = thread.submit(call, address)

        serve(server_settings, create_app=create_app, announce=announce)
    assert answer is not None
    return answer.result()


@contextmanager
def served_elsewhere(**server: Any) -> Iterator[str]:
    """The address of a server in another process."""
    command = [sys.executable, "-m", "tests.gateway.server.harness", json.dumps(server)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("ready: ").strip()
        finally:
            process.kill()


def connected(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def answer_to(url: str, request: bytes) -> bytes:
    """All that comes until the server closes the connection."""
    with connected(url) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


if __name__ == "__main__":
    serve(settings(**json.loads(sys.argv[1])), create_app=create_app)
