"""The real gateway on real sockets, in a thread of its own, and a caller that sends it whatever bytes it likes."""

import asyncio
import io
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import h11
import msgspec
import uvloop

from tests.e2e.stack import Stack, quick, stack

MARKER = "m4rk3r"
"""Stands in prompts and keys, and must not come out anywhere but in an answer to its sender."""

PATIENCE_S = 30.0
"""An exchange that takes longer hangs: with workers that answer at once it takes some milliseconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True, slots=True)
class Target:
    """Where the gateway listens."""

    host: str
    port: int

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=PATIENCE_S)

    def ask(self, request: bytes, *, method: str = "POST") -> Answer:
        """Send one complete request and read the answer; h11 sees to it that this is HTTP."""
        with self.connect() as client:
            client.sendall(request)
            answer = read_answer(client, method)
        assert answer is not None, "closed without an answer"
        return answer


def read_answer(client: socket.socket, method: str = "POST") -> Answer | None:
    """The next answer on *client*, None if the peer closes without one.

    Raises:
        TimeoutError: nothing came for `PATIENCE_S`.
        h11.RemoteProtocolError: what came is not HTTP/1.1.
    """
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=2**20)
    reader.send(h11.Request(method=method, target="/", headers=[("host", "w")]))
    reader.send(h11.EndOfMessage())
    head: h11.Response | None = None
    body = b""
    while True:
        match reader.next_event():
            case h11.NEED_DATA:
                data = _received(client)
                if not data and head is None:
                    return None
                reader.receive_data(data)
            case h11.Response() as head:
                pass
            case h11.Data(data=piece):
                body += bytes(piece)
            case h11.EndOfMessage():
                assert head is not None
                return Answer(head.status_code, dict(head.headers), body)


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(65_536)
    except ConnectionResetError:  # it did not read all that was sent; what it said before is here already
        return b""


@contextmanager
def target(**groups: Any) -> Iterator[Target]:
    """The gateway before one worker that answers at once, on uvloop as in production; *groups* are settings.

    At the end no line that it has logged may hold the marker.
    """
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    is_up, may_end = threading.Event(), threading.Event()
    found: list[Stack] = []
    thread = threading.Thread(target=_run, args=(found, is_up, may_end, groups))
    thread.start()
    try:
        assert is_up.wait(30)
        assert found, "the gateway did not start"
        host, _, port = found[0].url.removeprefix("http://").partition(":")
        yield Target(host, int(port))
    finally:
        may_end.set()
        thread.join()
        logging.getLogger().removeHandler(handler)
    requests = found[0].log.getvalue().decode().splitlines()
    assert requests
    assert [] == [line for line in requests + log.getvalue().splitlines() if MARKER in line]


def _run(found: list[Stack], is_up: threading.Event, may_end: threading.Event, groups: dict[str, Any]) -> None:
    async def serve() -> None:
        options = quick(max_model_len=512)  # no answer is long, whatever is asked for
        async with stack(1, options=options, **groups) as running:
            found.append(running)
            is_up.set()
            await asyncio.to_thread(may_end.wait)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())
    finally:
        is_up.set()
