"""What a connection makes of the bytes that come: over a recording transport, and over sockets where they matter."""

import asyncio
import contextlib
import gc
import json
import logging
import re
import signal
import socket
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context, ContextVar
from typing import Any, cast

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.server.addresses import Addresses
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.connection import ClientConnection
from gateway.server.cycle import Cycle
from gateway.server.shared_state import ConnectionLimits, DateLine, SharedState
from gateway.server.stop import Stop

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
POST_HEAD = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
OK_LAST = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"


# Applications


async def answer(send: Send, body: bytes, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def body_of(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body, more = body + message["body"], message["more_body"]
    return body


async def ok(_: Message, __: Receive, send: Send) -> None:
    await answer(send, b"ok")


async def echo(_: Message, receive: Receive, send: Send) -> None:
    await answer(send, await body_of(receive))


class Held:
    """Answers ``ok`` to each request when it is let go; keeps what it was asked."""

    def __init__(self) -> None:
        self.scopes: list[Message] = []
        self.leave = asyncio.Semaphore(0)
        self.sent = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await self.leave.acquire()
        await answer(send, b"ok")
        self.sent += 1

    @property
    def paths(self) -> list[str]:
        return [scope["path"] for scope in self.scopes]


class Takes:
    """Asks for one message of the body each time it is let, and answers after the last."""

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.ask = asyncio.Semaphore(0)

    async def __call__(self, _: Message, receive: Receive, send: Send) -> None:
        more = True
        while more:
            await self.ask.acquire()
            self.received.append(await receive())
            more = self.received[-1].get("more_body", False)
        await answer(send, b"ok")


class Streams:
    """Sends its head and one chunk, the rest when it is let go."""

    def __init__(self) -> None:
        self.leave = asyncio.Semaphore(0)

    async def __call__(self, _: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok", "more_body": True})
        await self.leave.acquire()
        await send({"type": "http.response.body", "body": b""})


# A client without a socket


class Clock:
    """The running loop, with a time of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = 1000.0
        self._timers: list[tuple[float, asyncio.Handle]] = []

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[[], object]) -> asyncio.Handle:
        return self._loop.call_soon(callback)

    def call_at(self, when: float, callback: Callable[[], object]) -> asyncio.Handle:
        handle = asyncio.Handle(callback, (), self._loop)
        self._timers.append((when, handle))
        return handle

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> asyncio.Handle:
        return self.call_at(self._now + delay_s, callback)

    def create_task(self, coroutine: Any, *, context: Context) -> "asyncio.Task[None]":
        return self._loop.create_task(coroutine, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return self._loop.create_future()

    def advance(self, by_s: float) -> None:
        end = self._now + by_s
        while (due := min(self._timers, key=lambda timer: timer[0], default=None)) and due[0] <= end:
            self._timers.remove(due)
            self._now = max(self._now, due[0])
            if not due[1].cancelled():
                due[1]._run()
        self._now = end


def undated(answered: bytes) -> bytes:
    return re.sub(rb"\r\ndate: [^\r]+", b"", answered)


class RecordingTransport(asyncio.Transport):
    """Records what is done to it, without dates. Closing reaches the protocol in the next turn, unless *is_stuck*."""

    def __init__(self, host: str) -> None:
        super().__init__({"peername": (host, 5000), "sockname": ("10.0.0.2", 8000)})
        self.protocol: asyncio.Protocol
        self.writes: list[bytes] = []
        self.is_reading_paused = False
        self.is_closed = False
        self.is_lost = False
        self.is_stuck = False
        self.is_aborted = False
        self.has_ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.has_ended
        self.writes.append(undated(bytes(data)))

    def write_eof(self) -> None:
        self.has_ended = True

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True
        if not self.is_stuck:
            asyncio.get_running_loop().call_soon(self._lose)

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True
        asyncio.get_running_loop().call_soon(self._lose)

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.protocol.connection_lost(None)
            del self.protocol


class Peer:
    """A client of *app*."""

    def __init__(
        self,
        app: App,
        *,
        limits: ConnectionLimits | None = None,
        shared: SharedState | None = None,
        host: str = "10.0.0.1",
        state: dict[str, Any] | None = None,
    ) -> None:
        self.clock = Clock()
        self.shared = shared or SharedState()
        self.transport = RecordingTransport(host)
        self.connection = self.transport.protocol = ClientConnection(
            app,
            limits=limits or ConnectionLimits(),
            shared=self.shared,
            state={"started": True} if state is None else state,
            loop=cast("asyncio.AbstractEventLoop", self.clock),
        )
        self.connection.connection_made(self.transport)

    async def sends(self, *pieces: bytes) -> bytes:
        """What has been answered so far, all together."""
        for piece in pieces:
            if not self.transport.is_closed:
                self.connection.data_received(piece)
            await turns()
        return self.answered

    async def waits(self, for_s: float) -> None:
        self.clock.advance(for_s)
        await turns()

    def goes(self) -> None:
        self.transport.close()

    @property
    def answered(self) -> bytes:
        return b"".join(self.transport.writes)

    @property
    def is_open(self) -> bool:
        """The server has not ended its side."""
        return not (self.transport.is_closed or self.transport.has_ended)


async def turns(count: int = 12) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def refusal(answered: bytes) -> tuple[bytes, Any]:
    """The status line and the error's type of the one response in *answered*."""
    head, body = answered.split(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head
    return head.split(b"\r\n")[0], json.loads(body)["error"]["type"]


REFUSED = (b"HTTP/1.1 400 Bad Request", "invalid_request_error")


# A client with a socket


@contextlib.asynccontextmanager
async def listening(
    app: App, *, limits: ConnectionLimits | None = None, shared: SharedState | None = None
) -> AsyncIterator[tuple[str, int]]:
    loop = asyncio.get_running_loop()
    shared = shared or SharedState()
    server = await loop.create_server(
        lambda: ClientConnection(app, limits=limits or ConnectionLimits(), shared=shared, state={}, loop=loop),
        "127.0.0.1",
        0,
    )
    async with server:
        yield server.sockets[0].getsockname()
        for connection in list(shared.connections):
            connection.shutdown()
        await asyncio.gather(*shared.tasks)
        while shared.connections:
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def connected(address: tuple[str, int]) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.close()


def over_sockets(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run *test* on the loop that the server runs on."""

    def run() -> None:
        uvloop.run(asyncio.wait_for(test(), 60))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# One request after the other


@over_sockets
async def test_a_connection_serves_many_requests() -> None:
    """With and without bodies."""
    async with listening(echo) as address, connected(address) as (reader, writer):
        for body in (b"one", b"", b"three" * 100_000):
            writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

            head = await reader.readuntil(b"\r\n\r\n")
            assert b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) == undated(head)
            assert body == await reader.readexactly(len(body))


@over_sockets
async def test_pipelined_requests_are_answered_in_order() -> None:
    """Each with its own body, however many come at once."""
    bodies = [b"%d" % i * i for i in range(30)]
    requests = [b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body for body in bodies]
    answers = b"".join(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body for body in bodies)

    async with listening(echo) as address, connected(address) as (reader, writer):
        writer.write(b"".join(requests))

        came = b""
        while len(undated(came)) < len(answers):
            came += await reader.read(65_536)
        assert answers == undated(came)


async def test_pipelined_requests_are_served_one_at_a_time() -> None:
    """The next one's application is called when the response before it is out."""
    app = Held()
    peer = Peer(app)

    await peer.sends(b"".join(b"GET /%d HTTP/1.1\r\nhost: a\r\n\r\n" % i for i in range(3)))
    seen = [list(app.paths)]
    for _ in range(3):
        app.leave.release()
        await turns()
        seen.append(list(app.paths))

    assert [["/0"], ["/0", "/1"], ["/0", "/1", "/2"], ["/0", "/1", "/2"]] == seen
    assert OK * 3 == peer.answered


async def test_nothing_is_read_while_a_request_waits() -> None:
    """Until the last that waited is served."""
    app = Held()
    peer = Peer(app)

    await peer.sends(GET * 3)
    paused = [peer.transport.is_reading_paused]
    for _ in range(3):
        app.leave.release()
        await turns()
        paused.append(peer.transport.is_reading_paused)

    assert [True, True, False, False] == paused


async def test_so_many_requests_wait_and_no_more() -> None:
    """One piece could else be thousands; those within the bound are answered, then the connection ends."""
    peer = Peer(ok)
    await peer.sends(GET * 500)
    await turns(500)

    assert 101 == peer.answered.count(OK)
    assert REFUSED == refusal(peer.answered.removeprefix(OK * 101))


async def test_nothing_is_served_after_the_last_request() -> None:
    """A client that says close has no more to ask, whatever follows."""
    app = Held()
    peer = Peer(app)
    app.leave.release()
    app.leave.release()

    assert OK_LAST == await peer.sends(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n" + GET)
    assert (1, False) == (len(app.scopes), peer.is_open)


async def test_a_client_of_http_1_0_may_go_on() -> None:
    """If it asks for that, and the answer has a length."""
    once = b"GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n"
    kept = OK.replace(b"\r\n\r\n", b"\r\nconnection: keep-alive\r\n\r\n")

    assert kept + kept + OK_LAST == await Peer(ok).sends(once, once, b"GET / HTTP/1.0\r\n\r\n", once)


@over_sockets
async def test_every_answer_has_the_date() -> None:
    """Also a refusal; the date of an application does not stand beside it."""

    async def dated(_: Message, __: Receive, send: Send) -> None:
        await answer(send, b"ok", (b"date", b"yesterday"))

    shared = SharedState(dates=DateLine(lambda: 784_111_777.5))
    async with listening(dated, shared=shared) as address, connected(address) as (reader, writer):
        writer.write(GET + b"nonsense\r\n\r\n")
        answers = await reader.read()

    assert 2 == answers.count(b"\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n") == answers.count(b"date: ")


async def test_http_1_0_without_a_length_closes_the_connection() -> None:
    """Also for a client that would go on: it reads no chunks, so the end of the body is that of the connection."""
    app = Streams()
    peer = Peer(app)

    midway = await peer.sends(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    was_open = peer.is_open
    app.leave.release()
    await turns()

    assert b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok" == midway == peer.answered
    assert (True, False) == (was_open, peer.is_open)


@over_sockets
async def test_the_connection_is_the_end_of_an_http_1_0_body() -> None:
    """It closes after the answer."""
    async with listening(echo) as address, connected(address) as (reader, writer):
        writer.write(b"POST / HTTP/1.0\r\ncontent-length: 4\r\n\r\nbody")

        assert b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody" == undated(await reader.read())


async def test_head_is_answered_without_a_body() -> None:
    """The next response follows at once."""
    answered = await Peer(ok).sends(b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n" + GET)

    assert b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n" + OK == answered


# Tasks


async def nothing(_: Message) -> None:
    pass


class Tasks:
    """Answers ``ok`` in the task that it keeps, after it has done *what* there."""

    def __init__(self, what: Callable[[Message], Awaitable[object]] = nothing) -> None:
        self.what = what
        self.kept: list[asyncio.Task[Any]] = []

    async def __call__(self, scope: Message, _: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.kept.append(task)
        await self.what(scope)
        await answer(send, b"ok")

    @property
    def count(self) -> int:
        """Number of tasks; they are kept so that ids are not reused."""
        return len(set(self.kept))


async def test_one_task_serves_one_request_after_the_other() -> None:
    """A stop waits for it only while it does."""
    app = Tasks()
    peer = Peer(app)
    busy: list[int] = []

    async def note(_: Message) -> None:
        await asyncio.sleep(0)
        busy.append(len(peer.shared.tasks))

    app.what = note
    for _ in range(3):
        await peer.sends(GET)
        busy.append(len(peer.shared.tasks))

    assert (OK * 3, 1, [1, 0] * 3) == (peer.answered, app.count, busy)


async def test_two_tasks_serve_while_one_has_work_after_its_response() -> None:
    """The next request does not wait for that; later one of them rests, and the other ends."""
    leave = asyncio.Event()
    app = Tasks()

    async def lingers(scope: Message, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        await leave.wait()

    peer = Peer(lingers)
    first = await peer.sends(GET, GET)
    busy = len(peer.shared.tasks)
    leave.set()
    await turns()
    rest = [task.done() for task in app.kept]
    await peer.sends(GET)

    assert (OK * 2, 2, [False, True], 0) == (first, busy, rest, len(peer.shared.tasks))
    assert (OK * 3, 2) == (peer.answered, app.count)


async def test_a_failure_after_a_response_is_nothing_to_the_next_request() -> None:
    """Served by the same task."""
    app = Tasks()

    async def fails(scope: Message, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        raise ValueError("boom")

    peer = Peer(fails)

    assert (OK * 2, 1) == (await peer.sends(GET, GET), app.count)


async def test_a_cancellation_that_an_application_swallows_ends_its_task() -> None:
    """The next request is served by another, that is not cancelled."""
    app = Tasks()
    cancelling: list[int] = []

    async def swallows(scope: Message) -> None:
        if scope["path"] == "/cancelled":
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        cancelling.append(app.kept[-1].cancelling())

    app.what = swallows
    peer = Peer(app)
    await peer.sends(b"GET /cancelled HTTP/1.1\r\nhost: a\r\n\r\n")
    app.kept[0].cancel()
    await turns()
    has_ended = app.kept[0].done()
    await peer.sends(GET)

    assert (OK * 2, True, 2, [1, 0]) == (peer.answered, has_ended, app.count, cancelling)


async def test_a_cancellation_that_is_taken_back_keeps_the_task() -> None:
    """A timeout takes its cancellation back, and so may an application."""
    app = Tasks()

    async def times_out(_: Message) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        task = app.kept[-1]
        asyncio.get_running_loop().call_soon(task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        task.uncancel()

    app.what = times_out
    peer = Peer(app)

    assert (OK * 2, 1) == (await peer.sends(GET, GET), app.count)


USER: ContextVar[str] = ContextVar("user", default="unknown")


@pytest.mark.parametrize("requests", [(GET, GET, GET), (GET + GET + GET,)])
async def test_a_context_variable_is_set_for_one_request(requests: tuple[bytes, ...]) -> None:
    """Whether the others come later or have come ahead of their turn."""
    seen: list[str] = []

    async def app(_: Message, __: Receive, send: Send) -> None:
        seen.append(USER.get())
        USER.set("somebody")
        await answer(send, b"ok")

    assert OK * 3 == await Peer(app).sends(*requests)
    assert ["unknown"] * 3 == seen


async def test_a_context_variable_that_is_reset_keeps_the_task() -> None:
    """It left nothing behind."""

    async def resets(_: Message) -> None:
        token = USER.set("somebody")
        await asyncio.sleep(0)
        USER.reset(token)

    app = Tasks(resets)

    assert (OK * 2, 1) == (await Peer(app).sends(GET, GET), app.count)


async def test_after_a_stop_no_task_rests() -> None:
    """A stop, which waits for tasks, would wait for it."""
    app = Streams()
    peer = Peer(app)
    await peer.sends(GET)
    peer.connection.shutdown()
    app.leave.release()

    done, pending = await asyncio.wait(peer.shared.tasks, timeout=60)

    assert (1, 0, True) == (len(done), len(pending), peer.is_open)


async def test_a_task_that_was_cancelled_at_rest_is_not_asked_again() -> None:
    """Another serves the next request."""
    app = Tasks()
    peer = Peer(app)
    await peer.sends(GET)
    app.kept[0].cancel()
    peer.connection.data_received(GET)
    await turns()

    assert (OK * 2, 2) == (peer.answered, app.count)


# What the application is given


@pytest.mark.parametrize(
    ("target", "path", "raw_path", "query"),
    [
        (b"/", "/", b"/", b""),
        (b"/a?b=c?d", "/a", b"/a", b"b=c?d"),
        (b"/a?", "/a", b"/a", b""),
        (b"/a%20b%C3%A9%2f?%20", "/a bé/", b"/a%20b%C3%A9%2f", b"%20"),
        (b"/%ff", "/\ufffd", b"/%ff", b""),
        (b"//a/b", "//a/b", b"//a/b", b""),
        (b"/a?b#c", "/a", b"/a", b"b"),
        (b"http://a:80/b?c", "/b", b"/b", b"c"),
        (b"http://a", "/", b"/", b""),
        (b"http://a?b", "/", b"/", b"b"),
        (b"*", "*", b"*", b""),
    ],
)
async def test_a_target_is_taken_apart(target: bytes, path: str, raw_path: bytes, query: bytes) -> None:
    """Path, decoded and as it came, and query; of an absolute URL as well, as to a proxy."""
    app = Held()

    await Peer(app).sends(b"OPTIONS " + target + b" HTTP/1.1\r\nhost: a\r\n\r\n")

    (scope,) = app.scopes
    assert (path, raw_path, query) == (scope["path"], scope["raw_path"], scope["query_string"])


async def test_a_scope_is_what_asgi_says() -> None:
    """Names of headers in lower case, values as they came, the state a copy for each request."""
    app = Held()
    peer = Peer(app)
    app.leave.release()

    await peer.sends(b"GET /a HTTP/1.1\r\nHost: A\r\nX-Y:  \xffZ\r\nx-y:\r\n\r\n", GET)

    first, second = app.scopes
    assert {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/a",
        "raw_path": b"/a",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"A"), (b"x-y", b"\xffZ"), (b"x-y", b"")],
        "client": ("10.0.0.1", 5000),
        "server": ("10.0.0.2", 8000),
        "state": {"started": True},
    } == first
    assert first["state"] is not second["state"]


async def test_each_request_has_the_values_of_its_own_line() -> None:
    """A repeated line is recognized, and a changed version or method is not taken for a repeated line."""
    app = Held()
    peer = Peer(app)
    again = b"POST /a?b HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n"
    one_piece = again + b"x" + again.replace(b"POST", b"PATCH") + b"x"
    for piece in (
        again + b"x",
        again,
        b"x",
        one_piece,
        again[:10],
        again[10:] + b"x",
        again.replace(b"?b", b"") + b"x",
    ):
        await peer.sends(piece)
        app.leave.release()
        app.leave.release()
        await turns()
    await peer.sends(b"POST /a HTTP/1.0\r\n\r\n")

    assert [
        ("POST", "1.1", "/a", b"/a", b"b", [(b"host", b"a"), (b"content-length", b"1")]),
        ("POST", "1.1", "/a", b"/a", b"b", [(b"host", b"a"), (b"content-length", b"1")]),
        ("POST", "1.1", "/a", b"/a", b"b", [(b"host", b"a"), (b"content-length", b"1")]),
        ("PATCH", "1.1", "/a", b"/a", b"b", [(b"host", b"a"), (b"content-length", b"1")]),
        ("POST", "1.1", "/a", b"/a", b"b", [(b"host", b"a"), (b"content-length", b"1")]),
        ("POST", "1.1", "/a", b"/a", b"", [(b"host", b"a"), (b"content-length", b"1")]),
        ("POST", "1.0", "/a", b"/a", b"", []),
    ] == [
        tuple(scope[name] for name in ("method", "http_version", "path", "raw_path", "query_string", "headers"))
        for scope in app.scopes
    ]


async def test_what_an_application_makes_of_a_scope_stays_there() -> None:
    """The next request for the same has one of its own."""
    seen: list[set[str]] = []

    async def app(scope: Message, _: Receive, send: Send) -> None:
        seen.append({name for name in ("path", "user") if name in scope} | set(scope["state"]))
        scope["user"] = scope["state"]["user"] = "x"
        del scope["path"]
        await answer(send, b"ok")

    await Peer(app).sends(GET, GET, GET)

    assert [{"path", "started"}] * 3 == seen


async def test_a_body_that_reads_like_a_request_is_a_body() -> None:
    """Also at the begin of a piece, with a request behind it that asks for something else."""
    app = Held()
    peer = Peer(app)
    for _ in range(3):
        app.leave.release()

    answered = await peer.sends(
        GET,
        b"PUT /x HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(GET),
        GET + b"GET /y HTTP/1.1\r\nhost: a\r\n\r\n",
    )

    assert (["/", "/x", "/y"], OK * 3) == (app.paths, answered)


SEVERAL = (
    b"POST /a?x HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello"
    b"GET /b HTTP/1.1\r\nhost: a\r\n\r\n"
    b"POST /c HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3;q=1\r\nabc\r\n0A\r\n0123456789\r\n0\r\nx: y\r\n\r\n"
    b"POST /d HTTP/1.1\r\nhost: a\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: x\r\n"
    b"content-length: 4\r\n\r\nbody"
    b"HEAD /e HTTP/1.1\r\nhost: a\r\n\r\n"
    b"HEAD /e HTTP/1.1\r\nhost: a\r\n\r\n"
)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(1, len(SEVERAL) - 1)))
def test_requests_are_the_same_wherever_their_bytes_are_cut(cuts: set[int]) -> None:
    """Methods, targets, headers and bodies; by content-length, chunked, with trailers, with an offer of h2c."""
    seen: list[tuple[str, bytes, bytes, list[bytes], bytes]] = []

    async def keep(scope: Message, receive: Receive, send: Send) -> None:
        names = [name for name, _ in scope["headers"]]
        seen.append((scope["method"], scope["raw_path"], scope["query_string"], names, await body_of(receive)))
        await answer(send, b"ok")

    async def run() -> bytes:
        ends = [*sorted(cuts), len(SEVERAL)]
        return await Peer(keep).sends(*[SEVERAL[begin:end] for begin, end in zip([0, *ends], ends, strict=False)])

    answered = asyncio.run(run())

    assert [
        ("POST", b"/a", b"x", [b"host", b"content-length"], b"hello"),
        ("GET", b"/b", b"", [b"host"], b""),
        ("POST", b"/c", b"", [b"host", b"transfer-encoding"], b"abc0123456789"),
        ("POST", b"/d", b"", [b"host", b"connection", b"http2-settings", b"content-length"], b"body"),
        ("HEAD", b"/e", b"", [b"host"], b""),
        ("HEAD", b"/e", b"", [b"host"], b""),
    ] == seen
    assert OK * 4 + OK.removesuffix(b"ok") * 2 == answered


async def test_chunked_may_be_written_in_any_way_that_http_allows() -> None:
    """In capitals, with a tab before it and a space behind."""
    answered = await Peer(echo).sends(
        b"POST / HTTP/1.1\r\nhost: a\r\nTransfer-Encoding:\tChunked \r\n\r\n002\r\nok\r\n0\r\n\r\n" + GET
    )

    assert OK + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" == answered


async def test_trailers_are_not_headers() -> None:
    """A proxy in front checks headers only, so trailers must not become headers."""
    app = Held()

    await Peer(app).sends(
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\nauthorization: Bearer x\r\n\r\n"
    )

    assert [[(b"host", b"a"), (b"transfer-encoding", b"chunked")]] == [scope["headers"] for scope in app.scopes]


# Expect


async def test_a_client_that_waits_with_its_body_gets_100_continue() -> None:
    """The answer is sent when the application asks for the body."""
    app = Takes()
    peer = Peer(app)

    before = await peer.sends(POST_HEAD.replace(b"\r\n\r\n", b"\r\nExpect: 100-Continue\r\n\r\n"))
    app.ask.release()
    await turns()
    asked = peer.answered
    answered = await peer.sends(b"body")

    assert (b"", b"HTTP/1.1 100 Continue\r\n\r\n") == (before, asked)
    assert b"HTTP/1.1 100 Continue\r\n\r\n" + OK == answered


@pytest.mark.parametrize(("version", "value"), [(b"1.1", b"200-maybe"), (b"1.1", b""), (b"1.0", b"100-continue")])
async def test_other_expectations_are_ignored(version: bytes, value: bytes) -> None:
    """HTTP/1.0 has no 100 at all; RFC 9110, 10.1.1 allows or requires both."""
    peer = Peer(echo)

    answered = await peer.sends(
        b"POST / HTTP/" + version + b"\r\nhost: a\r\nexpect: " + value + b"\r\ncontent-length: 4\r\n\r\n", b"body"
    )

    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_client_that_waits_to_be_asked_is_not_late() -> None:
    """Its time begins with ``100 Continue``."""
    app = Takes()
    peer = Peer(app, limits=ConnectionLimits(body_idle_s=60))

    await peer.sends(POST_HEAD.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n"))
    await peer.waits(1000)
    before = peer.is_open
    app.ask.release()
    await turns()
    await peer.waits(59)
    asked = peer.is_open
    await peer.waits(1)

    assert (True, True, False) == (before, asked, peer.is_open)


# Offers of another protocol


@pytest.mark.parametrize("pieces", [1, 2, 3])
@pytest.mark.parametrize(
    "offer", [b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c", b"connection: upgrade\r\nupgrade: websocket"]
)
async def test_an_offer_of_another_protocol_is_passed_over(offer: bytes, pieces: int) -> None:
    """Java's HTTP client makes one with its first request: it is served with its body, however the bytes arrive."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\n" + offer + b"\r\ncontent-length: 4\r\n\r\n"
    cuts = {1: [head + b"body"], 2: [head, b"body"], 3: [head[:40], head[40:] + b"bo", b"dy"]}[pieces]

    assert b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody" == await Peer(echo).sends(*cuts)


async def test_an_offer_may_come_ahead_of_its_turn() -> None:
    """Behind another request, with its body, and with a request and another offer behind."""
    offer = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\nok"

    assert OK * 4 == await Peer(ok).sends(GET + offer + GET + offer)


async def test_many_offers_at_once_are_bounded_as_other_requests_are() -> None:
    """Each is parsed twice, and the bound is on those that wait."""
    peer = Peer(ok)
    await peer.sends(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n" * 3000)
    await turns(500)

    assert 101 == peer.answered.count(OK)


async def test_an_offer_of_http_1_0_stays_one_of_http_1_0() -> None:
    """Such a client could not read chunks."""
    answered = await Peer(Streams()).sends(b"GET / HTTP/1.0\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")

    assert b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok" == answered


@pytest.mark.parametrize("before", [b"", GET])
async def test_connect_is_refused(before: bytes) -> None:
    """This is no tunnel; what came before is answered first."""
    answered = await Peer(ok).sends(before + b"CONNECT a:443 HTTP/1.1\r\nhost: a\r\n\r\nsecret")

    assert answered.startswith(OK if before else b"")
    assert REFUSED == refusal(answered.removeprefix(OK))


# What is no HTTP, or is read in two ways


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /  HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\nhost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nhost: a\r\n\r\n",
        b"DESCRIBE / RTSP/1.0\r\nhost: a\r\n\r\n",
        b"GET ftp://a/ HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET http://me@a/ HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        # The host
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost:\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: me@a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a:80:81\r\n\r\n",
        b"GET http://a:99999/ HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.2\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        # Line ends
        b"GET / HTTP/1.1\nhost: a\n\n",
        b"GET / HTTP/1.1\r\nhost: a\nx: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\rx: y\r\n\r\n",
        # Headers
        b"GET / HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\n x: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx y: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: a\0b\r\n\r\n",
        # Two lengths of one body
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3, 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0x3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length:\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551617\r\n\r\na",
        # Encodings that a body would keep: some of these the parser lets through
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_refused(request_: bytes) -> None:
    """With 400, in the shape of every other error; no application hears of it, nor of what follows."""
    app = Held()
    peer = Peer(app)

    answered = await peer.sends(request_, GET)

    assert (REFUSED, []) == (refusal(answered), app.scopes)


@pytest.mark.parametrize(
    "body",
    [
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"-1\r\nabc\r\n0\r\n\r\n",
        b"\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\nabc\n0\n\n",
        b"3;a\nb\r\nabc\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nabc",
        b"0\r\ncontent-length: 5\r\n\r\n",
        b"0\r\ntransfer-encoding: gzip\r\n\r\n",
    ],
)
async def test_chunks_in_disorder_are_refused(body: bytes) -> None:
    """The application learns that the client is gone."""
    app = Takes()
    peer = Peer(app)
    for _ in range(3):
        app.ask.release()

    answered = await peer.sends(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", body, GET)

    assert REFUSED == refusal(answered)
    assert {"type": "http.disconnect"} == app.received[-1]


async def test_http_1_0_with_chunks_is_refused() -> None:
    """Nothing behind a framing that HTTP/1.0 has not is taken for a request (RFC 9112, 6.1)."""
    answered = await Peer(echo).sends(
        b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + GET, GET
    )

    assert REFUSED == refusal(answered)


@pytest.mark.parametrize("cut", range(1, 30))
async def test_a_line_with_two_spaces_is_refused_wherever_it_is_cut(cut: int) -> None:
    """Also behind another request; and a line that is in order is served, also behind empty lines."""
    wrong = GET.replace(b"GET ", b"GET  ")

    assert REFUSED == refusal(await Peer(ok).sends(wrong[:cut], wrong[cut:]))
    assert REFUSED == refusal((await Peer(ok).sends(GET + wrong[:cut], wrong[cut:])).removeprefix(OK))
    assert OK == await Peer(ok).sends((b"\r\n" + GET)[:cut], (b"\r\n" + GET)[cut:])


async def test_an_absolute_target_overrides_the_host() -> None:
    """The host header is ignored (RFC 9112, 3.2.2)."""
    app = Held()
    peer = Peer(app)
    for _ in range(3):
        app.leave.release()
        await peer.sends(b"GET http://a:80/b HTTP/1.1\r\nx: y\r\nhost: localhost\r\n\r\n")

    assert [[(b"host", b"a:80"), (b"x", b"y")]] * 3 == [scope["headers"] for scope in app.scopes]


async def test_a_refusal_waits_for_its_turn() -> None:
    """It never stands amid the response to the request before."""
    app = Streams()
    peer = Peer(app)

    midway = await peer.sends(GET, b"nonsense\r\n\r\n", b"more\r\n\r\n")
    app.leave.release()
    await turns()

    complete = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    assert complete.removesuffix(b"0\r\n\r\n") == midway
    assert REFUSED == refusal(peer.answered.removeprefix(complete))


async def test_a_request_whose_body_is_broken_is_not_served_when_its_turn_comes() -> None:
    """It would wait for the rest."""
    app = Held()
    peer = Peer(app)
    app.leave.release()

    answered = await peer.sends(GET + b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nnonsense")

    assert 1 == len(app.scopes)
    assert REFUSED == refusal(answered.removeprefix(OK))


async def test_a_broken_body_cuts_a_response_that_has_begun() -> None:
    """There is no place left to say why."""
    peer = Peer(Streams())

    answered = await peer.sends(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", b"nonsense\r\n")

    assert b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n" == answered
    assert not peer.is_open


async def test_a_fault_of_ours_in_a_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The answer is 500, because the request may be valid."""

    class Uncopyable(dict[str, Any]):
        def copy(self) -> Any:
            raise LookupError("no state")

    peer = Peer(ok, state=Uncopyable())

    answered = await peer.sends(GET)

    assert (b"HTTP/1.1 500 Internal Server Error", "server_error") == refusal(answered)
    assert [(logging.ERROR, "no state")] == [
        (record.levelno, str(record.exc_info[1])) for record in caplog.records if record.exc_info
    ]


@over_sockets
async def test_a_refused_client_can_read_why() -> None:
    """Also one that goes on sending, and the connection ends soon."""
    async with listening(ok) as address, connected(address) as (reader, writer):
        writer.write(b"nonsense\r\n\r\n" + b"a" * 1_000_000)
        await asyncio.sleep(0.05)
        writer.write(b"a" * 1_000_000)

        assert REFUSED == refusal(undated(await reader.read()))


# How large


LIMITED = ConnectionLimits(max_header_bytes=8192)
TOO_LARGE = (b"HTTP/1.1 431 Request Header Fields Too Large", "invalid_request_error")


async def test_a_head_may_be_as_large_as_the_limit() -> None:
    """Request line and headers are counted, each header with four bytes around it."""
    exact = b"GET / HTTP/1.1\r\nhost: a\r\nx: %b\r\n\r\n"

    assert OK == await Peer(ok, limits=LIMITED).sends(exact % (b"a" * 8177))
    assert TOO_LARGE == refusal(await Peer(ok, limits=LIMITED).sends(exact % (b"a" * 8178)))


@pytest.mark.parametrize("cut", [20, 8000, 100_000])
@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 60_000,
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 60_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x:\r\n" * 3000,
        b"GET /" + b"a" * 9000,
    ],
)
async def test_a_head_above_the_limit_is_refused(head: bytes, cut: int) -> None:
    """In one piece or in many, complete or without end, of one header or of many."""
    pieces = [head[i : i + cut] for i in range(0, len(head), cut)]

    assert TOO_LARGE == refusal(await Peer(ok, limits=LIMITED).sends(*pieces, b"a" * 8192))


async def test_a_body_is_not_a_head() -> None:
    """Neither what follows a head in the same piece nor what comes before it counts."""
    body = b"a" * 60_000
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 60000\r\n\r\n"
    peer = Peer(ok, limits=LIMITED)

    assert OK * 3 == await peer.sends(head + body, head, body + GET[:10], GET[10:])


@pytest.mark.parametrize("flood", [b"0\r\nx: ", b"3;"])
async def test_what_stands_beside_a_body_is_bounded(flood: bytes) -> None:
    """Trailers and chunk extensions, which no application hears of."""
    app = Held()
    peer = Peer(app, limits=LIMITED)

    answered = await peer.sends(
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", flood, *[b"a" * 1000] * 9
    )

    assert REFUSED == refusal(answered)


async def test_one_connection_too_many_is_refused() -> None:
    """At once, with the time after which to come again; it does not count, and the place of one that goes is free."""
    shared, limits = SharedState(), ConnectionLimits(max_connections=2)
    first, second = (Peer(ok, limits=limits, shared=shared) for _ in range(2))
    refused = [Peer(ok, limits=limits, shared=shared) for _ in range(3)]
    statuses = {refusal(peer.answered) for peer in refused}
    first.goes()
    await turns()
    third = Peer(ok, limits=limits, shared=shared)

    assert {(b"HTTP/1.1 503 Service Unavailable", "service_unavailable_error")} == statuses
    assert all(b"\r\nretry-after: 1\r\n" in peer.answered for peer in refused)
    assert [OK, OK] == [await second.sends(GET), await third.sends(GET)]


async def test_one_address_cannot_take_all_connections() -> None:
    """What one has too many is refused, others and trusted proxies are not; a place that is left is free again."""
    limits = ConnectionLimits(max_connections=10)
    shared = SharedState(addresses=Addresses(2, ["10.0.0.9/32"]))

    def comes(host: str) -> Peer:
        return Peer(ok, limits=limits, shared=shared, host=host)

    first, _, third = comes("10.0.0.1"), comes("10.0.0.1"), comes("10.0.0.1")
    other, *proxies = comes("10.0.0.2"), *[comes("10.0.0.9") for _ in range(3)]
    first.goes()
    await turns()
    fourth = comes("10.0.0.1")

    assert (b"HTTP/1.1 503 Service Unavailable", "service_unavailable_error") == refusal(third.answered)
    assert b"max_connections_per_address" in third.answered
    assert [OK] * 5 == [await peer.sends(GET) for peer in (other, fourth, *proxies)]


@pytest.mark.parametrize("cut", [17, 1_000_000])
async def test_a_request_may_have_100_header_fields(cut: int) -> None:
    """One more is refused, in one piece or in many."""

    async def answered(count: int) -> bytes:
        head = b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * (count - 1) + b"\r\n"
        return await Peer(ok).sends(*[head[i : i + cut] for i in range(0, len(head), cut)])

    assert OK == await answered(100)
    assert TOO_LARGE == refusal(await answered(101))


async def test_chunks_have_no_more_framing_than_a_client_needs() -> None:
    """Chunks of one byte are served; those with an extension of 4 kB each are not read for long."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    plain = [b"1\r\na\r\n"] * 3000
    padded = [b"1;%b\r\na\r\n" % (b"x" * 4096)] * 3000

    served, refused = Peer(echo), Peer(echo)

    assert b"a" * 3000 == (await served.sends(head, *plain, b"0\r\n\r\n"))[-3000:]
    assert REFUSED == refusal(await refused.sends(head, *padded, b"0\r\n\r\n"))
    assert refused.connection._body.received_bytes < 30


# Back-pressure


async def test_reading_pauses_while_the_application_does_not_read() -> None:
    """Above 64 KiB; it resumes when the application asks for more than has arrived."""
    app = Takes()
    peer = Peer(app)
    paused: list[bool] = []

    await peer.sends(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 200000\r\n\r\n", b"a" * 65_536)
    paused.append(peer.transport.is_reading_paused)
    await peer.sends(b"a")
    paused.append(peer.transport.is_reading_paused)
    app.ask.release()
    await turns()
    paused.append(peer.transport.is_reading_paused)
    app.ask.release()
    await turns()
    paused.append(peer.transport.is_reading_paused)

    assert [False, True, True, False] == paused
    assert [65_537] == [len(message["body"]) for message in app.received]


@over_sockets
async def test_a_client_that_does_not_read_suspends_send() -> None:
    """Little more leaves the application than the system takes; all of it when the client reads."""
    sent = 0

    async def pours(_: Message, __: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"50000000")]})
        for i in range(500):
            await send({"type": "http.response.body", "body": b"a" * 100_000, "more_body": i < 499})
            sent += 1

    async with listening(pours) as address, connected(address) as (reader, writer):
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.05)
        assert 0 < before < 500
        assert 50_000_000 == len(await reader.readexactly(50_000_000))
        assert (b"HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n", 500) == (undated(head), sent)


@over_sockets
async def test_a_client_that_goes_without_reading_ends_the_wait() -> None:
    """The application's sends return, and it learns of the end."""
    ended: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def pours(_: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _i in range(500):
            await send({"type": "http.response.body", "body": b"a" * 100_000, "more_body": True})
        ended.set_result(await receive())

    async with listening(pours) as address:
        async with connected(address) as (reader, writer):
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.1)
            assert not ended.done()

        assert {"type": "http.disconnect"} == await ended


async def test_chunks_of_one_turn_leave_in_one_write() -> None:
    """In their order, with the head before them and the end behind; those before a cut leave as well."""

    async def pours(scope: Message, _: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"a", b"b", b"c"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if scope["path"] == "/fails":
            raise ValueError("boom")
        await send({"type": "http.response.body"})

    whole, cut = Peer(pours), Peer(pours)
    await whole.sends(GET)
    await cut.sends(b"GET /fails HTTP/1.1\r\nhost: a\r\n\r\n")

    chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n"
    assert [chunks + b"0\r\n\r\n"] == whole.transport.writes
    assert ([chunks], False) == (cut.transport.writes, cut.is_open)


async def test_an_application_that_never_suspends_meets_back_pressure() -> None:
    """A turn of the loop that does not end holds no more than 64 KiB back."""
    peer: Peer

    async def pours(_: Message, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for size in [5000, *[4000] * 20]:
            await send({"type": "http.response.body", "body": b"a" * size, "more_body": True})
            written.append(len(peer.transport.writes))
        await asyncio.Event().wait()

    written: list[int] = []
    peer = Peer(pours)
    await peer.sends(GET)
    peer.goes()
    (task,) = peer.shared.tasks
    task.cancel()
    await turns()

    assert [1] + [1] * 16 + [2] * 4 == written
    assert 3 == len(peer.transport.writes)


# A client that goes


@over_sockets
async def test_an_application_learns_that_its_client_has_gone() -> None:
    """From receive; what it sends then is swallowed."""
    ended: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def waits(_: Message, receive: Receive, send: Send) -> None:
        await body_of(receive)
        message = await receive()
        await answer(send, b"ok")
        ended.set_result(message)

    async with listening(waits) as address:
        async with connected(address) as (_, writer):
            writer.write(GET)
            await asyncio.sleep(0.02)

        assert {"type": "http.disconnect"} == await ended


@over_sockets
async def test_a_client_that_ends_its_side_has_gone() -> None:
    """A half-closed connection counts as closed: its request is not answered."""

    async def waits(_: Message, receive: Receive, send: Send) -> None:
        await body_of(receive)
        await receive()
        await answer(send, b"ok")

    async with listening(waits) as address, connected(address) as (reader, writer):
        writer.write(GET)
        writer.write_eof()

        assert b"" == undated(await reader.read())


async def test_all_requests_of_a_lost_connection_end() -> None:
    """The one that is served learns of it, and those that wait are never served."""
    app = Held()
    peer = Peer(app)
    await peer.sends(GET * 3)

    peer.goes()
    app.leave.release()
    await turns()

    assert (1, 1, b"", 0) == (len(app.scopes), app.sent, peer.answered, len(peer.shared.connections))


# An early answer


async def test_the_rest_of_an_unwanted_body_is_read_and_forgotten() -> None:
    """The next request on the connection is served when it is over."""
    peer = Peer(ok)

    first = await peer.sends(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 60000\r\n\r\n")
    second = await peer.sends(b"a" * 59_999, b"a" + GET)

    assert (OK, OK * 2) == (first, second)


@pytest.mark.parametrize(
    "framing", [b"transfer-encoding: chunked\r\n\r\nffffff\r\n", b"content-length: 16777215\r\n\r\n"]
)
async def test_no_more_than_64_kib_of_an_unwanted_body_are_read(framing: bytes) -> None:
    """Then the connection ends, whether or not the client said how much would come; soon nothing is taken any more."""
    peer = Peer(ok)
    await peer.sends(b"POST / HTTP/1.1\r\nhost: a\r\n" + framing)

    pieces = 0
    while not peer.transport.has_ended:
        await peer.sends(b"a" * 16_384)
        pieces += 1
    dropped = 0
    while not peer.transport.is_reading_paused:
        peer.connection.data_received(b"a" * 65_536)
        dropped += 65_536
    await peer.waits(1.0)

    assert (True, True) == (pieces <= 10, dropped <= 2**24 + 65_536)
    assert (True, b"HTTP/1.1 200 OK\r\n") == (peer.transport.is_closed, peer.answered[:17])


async def test_an_answer_to_a_long_unread_body_is_the_last() -> None:
    """Its header says so, for clients that check it before they send more."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n"

    assert OK == await Peer(ok).sends(head % 65_536)
    assert OK_LAST == await Peer(ok).sends(head % 65_537)


async def test_an_answer_to_a_paused_body_goes_on_reading() -> None:
    """It could not end else."""
    app = Held()
    peer = Peer(app)
    await peer.sends(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n", b"a" * 70_000)
    paused = peer.transport.is_reading_paused
    app.leave.release()
    await turns()

    assert (True, False) == (paused, peer.transport.is_reading_paused)


@over_sockets
async def test_a_last_answer_to_an_unfinished_body_can_be_read() -> None:
    """The client, which is still sending, is not answered by a reset."""
    async with listening(ok) as address, connected(address) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 9000000\r\n\r\n")
        writer.write(b"a" * 3_000_000)
        await asyncio.sleep(0.05)
        writer.write(b"a" * 3_000_000)

        assert OK_LAST == undated(await reader.read())


# How long

KEPT = ConnectionLimits(keep_alive_s=75, body_idle_s=60)
TOO_SLOW = (b"HTTP/1.1 408 Request Timeout", "invalid_request_error")


@pytest.mark.parametrize("limits", [KEPT, ConnectionLimits(keep_alive_s=2, body_idle_s=60)])
async def test_an_idle_connection_is_closed(limits: ConnectionLimits) -> None:
    """When keep_alive_s have passed since it was made, or since the last response; without a word."""
    for requests in ([], [GET], [POST_HEAD + b"body", GET], [POST_HEAD, b"bo", b"dy"]):
        peer = Peer(ok, limits=limits)
        for request in requests:
            await peer.sends(request)
            await peer.waits(1)
        await peer.waits(limits.keep_alive_s - 1.01)
        before = peer.is_open
        await peer.waits(1.01)

        assert (True, False) == (before, peer.is_open)
        assert peer.answered == OK * len([request for request in requests if b"HTTP" in request])


async def test_a_busy_connection_is_not_closed() -> None:
    """However long the response takes, and with a part of the next request there."""
    app = Streams()
    peer = Peer(app, limits=KEPT)
    await peer.sends(GET + b"GET / HT")

    await peer.waits(1000)
    before = peer.is_open
    app.leave.release()
    await turns()
    await peer.waits(74)
    after = peer.is_open
    await peer.waits(1)

    assert (True, True, False) == (before, after, peer.is_open)


async def test_a_head_that_trickles_is_cut() -> None:
    """It has keep_alive_s from its first byte on, however often a byte comes."""
    peer = Peer(ok, limits=KEPT)
    await peer.waits(70)
    for byte in GET[:10]:
        await peer.sends(bytes([byte]))
        await peer.waits(7.49)
    before = peer.is_open
    await peer.waits(0.2)

    assert (True, False, TOO_SLOW) == (before, peer.is_open, refusal(peer.answered))


@pytest.mark.parametrize("limits", [KEPT, ConnectionLimits(keep_alive_s=75, body_idle_s=5)])
async def test_a_body_that_stops_is_cut(limits: ConnectionLimits) -> None:
    """The limit is body_idle_s after the last piece; the application learns of it."""
    app = Takes()
    peer = Peer(app, limits=limits)
    for _ in range(9):
        app.ask.release()
    await peer.sends(POST_HEAD)
    for _ in range(3):
        await peer.waits(limits.body_idle_s - 1)
        await peer.sends(b"b")
    await peer.waits(limits.body_idle_s - 0.01)
    before = peer.is_open
    await peer.waits(0.01)

    assert (True, False, TOO_SLOW) == (before, peer.is_open, refusal(peer.answered))
    assert {"type": "http.disconnect"} == app.received[-1]


@pytest.mark.parametrize("pieces", [(POST_HEAD + b"body",), (POST_HEAD, b"body"), (POST_HEAD, b"bo", b"dy")])
async def test_a_client_that_sent_its_body_may_wait_for_the_answer(pieces: tuple[bytes, ...]) -> None:
    """The server waits for nothing more from it, so there is no limit."""
    app = Held()
    peer = Peer(app, limits=KEPT)
    for piece in pieces:
        await peer.sends(piece)
    await peer.waits(1000)
    waited = peer.is_open
    app.leave.release()
    await turns()

    assert (True, OK) == (waited, peer.answered)


async def test_a_body_has_to_come_at_a_rate() -> None:
    """20 s are free; then each second needs as many bytes as the limit says, however often one comes."""
    app = Takes()
    peer = Peer(app, limits=ConnectionLimits(min_body_bytes_per_s=100))
    for _ in range(100):
        app.ask.release()
    await peer.sends(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n")
    for _ in range(23):
        await peer.waits(1)
        await peer.sends(b"a" * 20)
    before = peer.is_open
    for _ in range(3):
        await peer.waits(1)
        await peer.sends(b"a" * 20)

    assert (True, False, TOO_SLOW) == (before, peer.is_open, refusal(peer.answered))


async def test_a_body_that_comes_fast_enough_may_take_long() -> None:
    """An hour at the rate of the limit is in order, and so is the time in which we did not read."""
    app = Takes()
    peer = Peer(app, limits=ConnectionLimits(min_body_bytes_per_s=100))
    await peer.sends(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 460000\r\n\r\n", b"a" * 70_000)
    await peer.waits(5000)
    app.ask.release()
    await turns()
    for _ in range(390):
        app.ask.release()
        await peer.waits(10)
        await peer.sends(b"a" * 1000)
    app.ask.release()
    await turns()

    assert OK == peer.answered


async def test_a_body_that_we_have_paused_is_not_late() -> None:
    """Its time begins when we read on."""
    app = Takes()
    peer = Peer(app, limits=KEPT)
    await peer.sends(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 200000\r\n\r\n", b"a" * 70_000)
    await peer.waits(1000)
    paused = peer.is_open
    app.ask.release()
    app.ask.release()
    await turns()
    await peer.waits(59)
    resumed = peer.is_open
    await peer.waits(1)

    assert (True, True, False) == (paused, resumed, peer.is_open)


async def test_a_body_that_waits_for_its_turn_is_not_late() -> None:
    """Its time begins when the response before it is out."""
    app = Held()
    peer = Peer(app, limits=KEPT)
    await peer.sends(GET + POST_HEAD)
    await peer.waits(1000)
    app.leave.release()
    await turns()
    await peer.waits(59)
    before = peer.is_open
    await peer.waits(1)

    assert (True, False) == (before, peer.is_open)


async def test_the_rest_of_an_unwanted_body_may_be_late() -> None:
    """Only the connection waits for it."""
    peer = Peer(ok, limits=KEPT)
    await peer.sends(POST_HEAD)

    await peer.waits(60)

    assert (OK, False) == (peer.answered, peer.is_open)


async def test_a_client_that_does_not_take_the_end_is_cut_off() -> None:
    """What was written last has keep_alive_s to leave: a connection that never closes would hold its place."""
    peer = Peer(ok, limits=KEPT)
    peer.transport.is_stuck = True
    await peer.sends(b"GET / HTTP/1.0\r\n\r\n")
    await peer.waits(74)
    before = peer.transport.is_aborted
    await peer.waits(1)

    assert (False, True, 0) == (before, peer.transport.is_aborted, len(peer.shared.connections))


# The server stops


async def test_a_stop_closes_what_is_idle() -> None:
    """After a moment, and so that the client sees an end, not a reset."""
    _, served, begun = peers = Peer(ok), Peer(ok), Peer(ok)
    await served.sends(GET)
    await begun.sends(b"GET / HT")

    for peer in peers:
        peer.connection.shutdown()
        await peer.waits(0.49)
    before = [peer.transport.has_ended for peer in peers]
    for peer in peers:
        await peer.waits(0.1)
    ended = [peer.transport.has_ended and not peer.transport.is_closed for peer in peers]
    await begun.sends(b"TP/1.1\r\nhost: a\r\n\r\n")  # too late, and no reason for a reset
    for peer in peers:
        await peer.waits(1.0)

    assert ([False] * 3, [True] * 3, [True] * 3) == (before, ended, [peer.transport.is_closed for peer in peers])
    assert b"" == begun.answered


async def test_a_request_that_was_on_its_way_at_a_stop_is_answered() -> None:
    """On a connection that was idle; the answer says that it is the last, and its time is its own."""
    app = Held()
    peer = Peer(app)
    peer.connection.shutdown()
    await peer.waits(0.49)
    await peer.sends(GET)
    await peer.waits(5)
    before = peer.is_open
    app.leave.release()
    await turns()

    assert (True, OK_LAST, False) == (before, peer.answered, peer.is_open)


@over_sockets
async def test_a_request_that_arrived_while_the_loop_was_busy_is_answered() -> None:
    """The loop is busy for longer than an idle connection has; what the kernel holds then is read before the end."""
    answers = []
    shared = SharedState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: ClientConnection(ok, limits=ConnectionLimits(), shared=shared, state={}, loop=loop), "127.0.0.1", 0
    )
    async with server:
        address = server.sockets[0].getsockname()
        with socket.create_connection(address, timeout=10) as client:
            client.sendall(GET)
            while not shared.connections:
                await asyncio.sleep(0)
            answers.append(undated(await asyncio.to_thread(client.recv, 1000)))
            for connection in shared.connections:
                connection.shutdown()
            time.sleep(0.6)  # noqa: ASYNC251  # it is busy
            client.sendall(GET)
            answers.append(undated(await asyncio.to_thread(client.recv, 1000)))

    assert [OK, OK_LAST] == answers


async def test_while_a_stop_is_announced_each_answer_is_the_last() -> None:
    """Requests are still accepted, also on new connections; answers that have begun stay unchanged."""
    asked = Stop(delay_s=60.0, clock=lambda: 0.0)
    streams = Streams()
    early, begun = Peer(ok, shared=SharedState(stop=asked)), Peer(streams, shared=SharedState(stop=asked))
    await early.sends(GET)
    await begun.sends(GET)
    asked.signalled(signal.SIGTERM)
    late = Peer(ok, shared=SharedState(stop=asked))
    await early.sends(GET)
    await late.sends(GET)
    streams.leave.release()
    await turns()

    assert (OK + OK_LAST, False) == (early.answered, early.is_open)
    assert (OK_LAST, False) == (late.answered, late.is_open)
    assert begun.is_open


async def test_a_stop_in_the_middle_of_a_stream_waits_for_its_end() -> None:
    """Its head did not announce the end, so one more request is answered, with the announcement."""
    app = Streams()
    peer = Peer(app)
    await peer.sends(GET)
    peer.connection.shutdown()
    await peer.waits(30)
    app.leave.release()
    await turns()
    before = peer.answered
    await peer.sends(b"GET / HTTP/1.1\r\nhost: b\r\n\r\n")
    app.leave.release()
    await turns()

    assert before.endswith(b"\r\n0\r\n\r\n")
    assert b"connection" not in before
    assert b"\r\nconnection: close\r\n" in peer.answered[len(before) :]
    assert not peer.is_open


async def test_a_stream_that_ends_after_a_stop_leaves_an_idle_connection() -> None:
    """The connection is closed after a moment."""
    app = Streams()
    peer = Peer(app)
    await peer.sends(GET)
    peer.connection.shutdown()
    app.leave.release()
    await turns()
    before = peer.transport.has_ended
    await peer.waits(0.6)

    assert (False, True) == (before, peer.transport.has_ended)


async def test_a_stop_lets_the_running_request_end() -> None:
    """It says that it is the last, and those that wait are dropped."""
    app = Held()
    peer = Peer(app)
    await peer.sends(GET * 3)

    peer.connection.shutdown()
    before = peer.is_open
    app.leave.release()
    app.leave.release()
    await turns()

    assert (True, OK_LAST, False, 1) == (before, peer.answered, peer.is_open, len(app.scopes))


async def test_a_request_that_begins_after_the_stop_is_dropped() -> None:
    """Behind one that runs."""
    app = Held()
    peer = Peer(app)
    await peer.sends(GET)
    peer.connection.shutdown()
    app.leave.release()
    peer.connection.data_received(GET)
    await turns()

    assert (OK_LAST, 1) == (peer.answered, len(app.scopes))


async def test_a_stop_does_not_wait_for_an_unwanted_body() -> None:
    """Its response is out."""
    peer = Peer(ok)
    await peer.sends(POST_HEAD)

    peer.connection.shutdown()
    await peer.waits(2.0)

    assert (OK, False) == (peer.answered, peer.is_open)


async def test_a_request_cancelled_by_the_stop_is_cut() -> None:
    """The grace is over; without the chunk that would end its body."""
    peer = Peer(Streams())
    await peer.sends(GET)

    peer.connection.shutdown()
    (task,) = peer.shared.tasks
    task.cancel()
    await turns()

    assert b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n" == peer.answered
    assert (False, set()) == (peer.is_open, peer.shared.tasks)


async def test_work_after_a_response_disturbs_no_other() -> None:
    """An application that fails or is cancelled then, while the next request is served."""
    first_goes = asyncio.Event()
    streams = Streams()
    calls = 0

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            await answer(send, b"ok")
            await first_goes.wait()
            raise ValueError("boom")
        await streams(scope, receive, send)

    peer = Peer(app)
    await peer.sends(GET + GET)
    first_goes.set()
    await turns()
    streams.leave.release()
    await turns()

    assert OK + b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" == peer.answered
    assert peer.is_open


# Memory


def count(kind: type) -> int:
    return sum(type(thing) is kind for thing in gc.get_objects())


async def test_nothing_of_a_request_stays() -> None:
    """The collector has nothing to do, after requests in order, failed and refused."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["path"] == "/fails":
            raise ValueError("boom")
        await echo(scope, receive, send)

    logging.disable()  # a test's record of the log would keep the errors
    gc.collect()
    gc.disable()
    cycles, connections = count(Cycle), count(ClientConnection)
    try:
        peer = Peer(app)
        for _ in range(1000):
            await peer.sends(POST_HEAD, b"body")
        cycles_of_one = count(Cycle) - cycles
        peer.goes()
        await turns()
        del peer
        for last in (
            b"GET / HTTP/1.0\r\n\r\n",
            b"GET /fails HTTP/1.1\r\nhost: a\r\n\r\n",
            b"nonsense\r\n\r\n",
            GET * 300,
        ):
            ended = Peer(app)
            await ended.sends(last)
            await turns(500)
            await ended.waits(2)
            assert not ended.is_open
            await turns()
            del ended
        await turns()
        assert (0, 0, 0) == (cycles_of_one, count(Cycle) - cycles, count(ClientConnection) - connections)
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)


async def test_a_task_goes_with_its_connection() -> None:
    """Without a word, and the collector has nothing to do, whether it rests or serves."""
    app = Held()
    before = asyncio.all_tasks()
    gc.collect()
    gc.disable()
    connections = count(ClientConnection)
    try:
        rests, serves = Peer(app), Peer(app)
        app.leave.release()
        await rests.sends(GET)
        await serves.sends(GET)
        tasks = [weakref.ref(task) for task in asyncio.all_tasks() - before]
        rests.goes()
        serves.goes()
        app.leave.release()
        await turns()
        del rests, serves
        assert ([None, None], connections) == ([task() for task in tasks], count(ClientConnection))
    finally:
        gc.enable()


async def test_an_unread_answer_is_cut() -> None:
    """The limit is write_timeout_s after the buffers were full; a client that reads in time may be slow."""
    app = Takes()
    peer = Peer(app, limits=ConnectionLimits(keep_alive_s=75, write_timeout_s=100))
    await peer.sends(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    for _ in range(3):
        peer.connection.pause_writing()
        await peer.waits(99)
        peer.connection.resume_writing()
        await peer.waits(1000)
    peer.connection.pause_writing()
    await peer.waits(99.9)
    before = peer.is_open
    await peer.waits(0.1)

    assert (True, False) == (before, peer.is_open)
