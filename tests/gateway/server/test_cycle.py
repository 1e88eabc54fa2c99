import asyncio
import json
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from gateway.server import App, Message, Receive, Send
from gateway.server.cycle import Cycle, serve

Headers = list[tuple[bytes, bytes]]


DATE = b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"


class RecordingLine:
    """Keeps what a cycle asks for; writable until it is said not to be."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.not_urgent: list[bytes] = []
        self.wanted = 0
        self.completed_cycles: list[Cycle] = []
        self.is_cut = False
        self.is_last = False
        self.much_is_to_come = False
        self.follows: asyncio.Future[Cycle] | None = None
        self.writable = asyncio.Event()
        self.writable.set()

    @property
    def is_writable(self) -> bool:
        return self.writable.is_set()

    def date_line(self) -> bytes:
        return DATE

    def wants_close(self, cycle: Cycle) -> bool:
        return self.much_is_to_come

    async def drained(self) -> None:
        await self.writable.wait()

    def write(self, data: bytes) -> None:
        self.writes.append(data.replace(DATE, b""))

    def write_soon(self, data: bytes) -> None:
        self.writes.append(data.replace(DATE, b""))
        self.not_urgent.append(data.replace(DATE, b""))

    def wants_body(self) -> None:
        self.wanted += 1

    def completed(self, cycle: Cycle) -> None:
        self.completed_cycles.append(cycle)

    def cut(self) -> None:
        self.is_cut = True

    def following(self) -> "asyncio.Future[Cycle] | None":
        return self.follows

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)


def cycle_on(
    line: RecordingLine,
    *,
    method: str = "GET",
    version: str = "1.1",
    is_persistent: bool = True,
    expects_continue: bool = False,
) -> Cycle:
    return Cycle(
        {"type": "http", "method": method, "http_version": version},
        line,
        loop=asyncio.get_running_loop(),
        is_persistent=is_persistent,
        expects_continue=expects_continue,
    )


def start(status: int = 200, headers: Headers | None = None) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers or []}


def body(data: bytes = b"", *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def sends(*messages: Message) -> App:
    async def app(_: Message, __: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


LENGTH_2: Headers = [(b"content-length", b"2")]


# What is written


async def test_head_and_first_body_leave_in_one_write() -> None:
    """A small answer costs one call of the system."""
    line = RecordingLine()

    await serve(cycle_on(line), sends(start(200, LENGTH_2), body(b"ok")))

    assert [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"] == line.writes


async def test_a_large_first_body_is_not_copied_to_its_head() -> None:
    """Above 64 KiB a second write costs less."""
    line = RecordingLine()

    await serve(cycle_on(line), sends(start(200, [(b"content-length", b"65537")]), body(b"a" * 65_537)))

    assert [b"HTTP/1.1 200 OK\r\ncontent-length: 65537\r\n\r\n", b"a" * 65_537] == line.writes


async def test_a_head_waits_for_its_body() -> None:
    """As ASGI asks; an empty piece of body lets it go."""
    line = RecordingLine()
    cycle = cycle_on(line)

    await cycle.send(start())
    before = list(line.writes)
    await cycle.send(body(b"", more=True))

    assert [] == before
    assert b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" == line.written


async def test_a_body_of_unknown_length_is_chunked() -> None:
    """An empty piece is none, for a chunk of no bytes would be the end."""
    line = RecordingLine()

    await serve(
        cycle_on(line),
        sends(start(), body(b"hello", more=True), body(b"", more=True), body(b"0123456789abcdef", more=True), body()),
    )

    assert [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"",
        b"10\r\n0123456789abcdef\r\n",
        b"0\r\n\r\n",
    ] == line.writes


async def test_chunks_may_leave_together_but_the_last_waits_for_none() -> None:
    """Several events of a stream are one write under load; its end has nothing to wait for."""
    line = RecordingLine()

    await serve(cycle_on(line), sends(start(), body(b"a", more=True), body(b"b", more=True), body(b"c")))

    assert [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n", b"1\r\nb\r\n"] == line.not_urgent
    assert b"1\r\nc\r\n0\r\n\r\n" == line.writes[-1]


async def test_http_1_0_gets_no_chunks() -> None:
    """The end of the connection is the end of its body."""
    line = RecordingLine()
    cycle = cycle_on(line, version="1.0", is_persistent=False)

    await serve(cycle, sends(start(), body(b"hel", more=True), body(b"lo")))

    assert b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello" == line.written
    assert not cycle.is_persistent


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"5")]])
async def test_head_has_no_body(headers: Headers) -> None:
    """Its content-length is that of the body that GET would get, and nothing is chunked."""
    line = RecordingLine()
    cycle = cycle_on(line, method="HEAD")

    await serve(cycle, sends(start(200, headers), body(b"hel", more=True), body(b"lo")))

    assert b"HTTP/1.1 200 OK\r\n" + b"content-length: 5\r\n" * len(headers) + b"\r\n" == line.written
    assert (True, [cycle]) == (cycle.is_persistent, line.completed_cycles)


@pytest.mark.parametrize(("status", "phrase"), [(204, b"No Content"), (304, b"Not Modified")])
async def test_a_status_without_body_is_not_framed(status: int, phrase: bytes) -> None:
    """Such a response ends with its head, whatever a header says."""
    line = RecordingLine()

    await serve(cycle_on(line), sends(start(status), body()))

    assert b"HTTP/1.1 %d %b\r\n\r\n" % (status, phrase) == line.written


async def test_a_304_keeps_the_length_of_what_it_does_not_send() -> None:
    """RFC 9110, 8.6."""
    line = RecordingLine()

    await serve(cycle_on(line), sends(start(304, [(b"content-length", b"5")]), body()))

    assert b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n" == line.written


async def test_a_status_of_no_phrase_is_sent_without_one() -> None:
    """The space before the phrase stays (RFC 9112, 4)."""
    line = RecordingLine()

    await serve(cycle_on(line), sends(start(299, LENGTH_2), body(b"ok")))

    assert b"HTTP/1.1 299 \r\ncontent-length: 2\r\n\r\nok" == line.written


async def test_close_is_said_once() -> None:
    """Whether the client, the application or both want it."""
    line = RecordingLine()
    cycle = cycle_on(line, is_persistent=False)

    await serve(cycle, sends(start(200, [(b"connection", b"Close"), *LENGTH_2]), body(b"ok")))

    assert b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok" == line.written


async def test_the_application_may_end_the_connection() -> None:
    """By the header that says so."""
    cycle = cycle_on(RecordingLine())

    await serve(cycle, sends(start(200, [(b"connection", b"close"), *LENGTH_2]), body(b"ok")))

    assert not cycle.is_persistent


async def test_the_framing_is_ours() -> None:
    """An application's transfer-encoding is left out, as ASGI asks: said twice, the body would be chunked twice."""
    line = RecordingLine()

    await serve(cycle_on(line), sends(start(200, [(b"transfer-encoding", b"chunked")]), body(b"ok")))

    assert b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" == line.written


async def test_a_header_may_come_as_a_list() -> None:
    """ASGI allows any iterable of two; those with values that never come again and others, in their order."""
    headers: list[Any] = [[b"x", b"y"], [b"x-request-id", b"1"], [b"connection", b"x"], *LENGTH_2, (b"a", b"b")]
    line = RecordingLine()
    cycle = cycle_on(line)

    await serve(cycle, sends(start(200, headers), body(b"ok")))

    assert (
        b"HTTP/1.1 200 OK\r\nx: y\r\nx-request-id: 1\r\nconnection: x\r\ncontent-length: 2\r\na: b\r\n\r\nok"
        == line.written
    )
    assert cycle.is_persistent


# What an application may not do


@pytest.mark.parametrize(
    "header", [(b"a", b"b\r\nc: d"), (b"a", b"b\n"), (b"a\r", b"b"), (b"a", b"\0"), (b"content-length", b"2\n")]
)
async def test_a_header_that_would_be_taken_for_more_than_one_is_an_error(header: tuple[bytes, bytes]) -> None:
    """Nothing has left then, and another response may still be sent."""
    line = RecordingLine()
    cycle = cycle_on(line)

    with pytest.raises(RuntimeError):
        await cycle.send(start(200, [(b"server", b"warmgate"), header]))
    await serve(cycle, sends(start(200, LENGTH_2), body(b"ok")))

    assert b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" == line.written


@pytest.mark.parametrize(
    "messages",
    [
        [body(b"x")],
        [start(), start()],
        [start(200, LENGTH_2), body(b"ok"), body(b"x")],
        [start(200, LENGTH_2), body(b"ok"), start()],
        [{"type": "websocket.accept"}],
        [start(), {"type": "http.response.trailers"}],
    ],
)
async def test_a_message_out_of_order_is_an_error(messages: list[Message]) -> None:
    """A head, then the body, then nothing more."""
    cycle = cycle_on(RecordingLine())
    for message in messages[:-1]:
        await cycle.send(message)

    with pytest.raises(RuntimeError, match="cannot be sent here"):
        await cycle.send(messages[-1])


@pytest.mark.parametrize("status", [0, 100, 101, 199, 1000, -200])
async def test_only_a_final_status_makes_a_response(status: int) -> None:
    """After an interim one the client would wait for another."""
    with pytest.raises(RuntimeError, match=f"^{status} is not the status of a response$"):
        await cycle_on(RecordingLine()).send(start(status))


@pytest.mark.parametrize(
    "headers",
    [[*LENGTH_2, *LENGTH_2], *[[(b"content-length", value)] for value in (b"-2", b"+2", b"2, 2", b" 2", b"", b"0x2")]],
)
async def test_a_content_length_is_one_number(headers: Headers) -> None:
    """Two readers would else see two bodies. The application may start once more, and better."""
    line = RecordingLine()
    cycle = cycle_on(line)

    with pytest.raises(RuntimeError, match="content-length has to be one number"):
        await cycle.send(start(200, headers))
    await cycle.send(start(200, LENGTH_2))
    await cycle.send(body(b"ok"))

    assert b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" == line.written


@pytest.mark.parametrize("pieces", [[b"abc"], [b"ab", b"c"], [b"a"], [b"a", b""], []])
async def test_a_body_of_another_length_than_was_told_is_cut(pieces: list[bytes]) -> None:
    """No byte too many leaves, and after one too few no other response can follow."""
    line = RecordingLine()
    messages = [body(piece, more=True) for piece in pieces] + [body()]

    await serve(cycle_on(line), sends(start(200, LENGTH_2), *messages))

    assert (True, []) == (line.is_cut, line.completed_cycles)
    assert len(line.written.partition(b"\r\n\r\n")[2]) <= 2


def assert_500(line: RecordingLine) -> None:
    head, data = line.written.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert head.endswith(b"\r\nconnection: close")
    assert 1 == len(line.completed_cycles)
    assert {
        "error": {
            "message": "The gateway failed to serve this request",
            "type": "server_error",
            "param": None,
            "code": "internal_error",
        }
    } == json.loads(data)


@pytest.mark.parametrize(
    "bad",
    [
        (b"x", b"a\r\nset-cookie: b"),
        (b"x", b"a\n"),
        (b"x", b"a\r"),
        (b"x", b"a\0b"),
        (b"x\r\ny", b"a"),
        (b"x-request-id", b"a\r\nset-cookie: b"),
        (b"connection", b"a\r\nset-cookie: b"),
    ],
)
async def test_a_header_with_a_line_end_is_answered_500(bad: tuple[bytes, bytes]) -> None:
    """And nothing of it reaches the client."""
    line = RecordingLine()

    await serve(cycle_on(line), sends(start(200, [bad, *LENGTH_2]), body(b"ok")))

    assert_500(line)


# What an application may fail at


def fails_after(*messages: Message) -> App:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await sends(*messages)(scope, receive, send)
        raise ValueError("boom")

    return app


@pytest.mark.parametrize("app", [fails_after(), fails_after(start(200, [(b"x", b"y")])), sends(), sends(start())])
async def test_an_application_that_fails_with_nothing_sent_is_answered_500(app: App) -> None:
    """Raised or returned, before its head or before its body: nothing had left."""
    line = RecordingLine()
    cycle = cycle_on(line)

    await serve(cycle, app)

    assert_500(line)
    assert not cycle.is_persistent


@pytest.mark.parametrize("end", [fails_after, sends])
async def test_an_application_that_fails_midway_is_cut(end: Callable[..., App]) -> None:
    """Without the chunk that ends a body: the client can tell that it is not complete."""
    line = RecordingLine()

    await serve(cycle_on(line), end(start(), body(b"ok", more=True)))

    assert b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n" == line.written
    assert (True, []) == (line.is_cut, line.completed_cycles)


async def test_a_failure_after_the_response_disturbs_nobody() -> None:
    """The line may serve the next request by then."""
    line = RecordingLine()

    await serve(cycle_on(line), fails_after(start(200, LENGTH_2), body(b"ok")))

    assert (False, 1) == (line.is_cut, len(line.completed_cycles))


@pytest.mark.parametrize(("messages", "is_cut"), [([], True), ([start(200, LENGTH_2), body(b"ok")], False)])
async def test_a_cancelled_request_is_cut(messages: list[Message], *, is_cut: bool) -> None:
    """Unless its response is out; the task ends as cancelled."""
    line = RecordingLine()

    async def hangs(scope: Message, receive: Receive, send: Send) -> None:
        await sends(*messages)(scope, receive, send)
        await asyncio.Event().wait()

    task = asyncio.get_running_loop().create_task(serve(cycle_on(line), hangs))
    await turns()
    task.cancel()
    await turns()

    assert (True, is_cut) == (task.cancelled(), line.is_cut)


# The next request


async def test_a_request_that_follows_is_served_by_the_same_task() -> None:
    """Nothing is held of the one before while there is none."""
    lines = RecordingLine(), RecordingLine(), RecordingLine()
    loop = asyncio.get_running_loop()
    scopes: list[Message] = []

    async def app(scope: Message, _: Receive, send: Send) -> None:
        scopes.append(scope)
        await send(start(200, LENGTH_2))
        await send(body(b"ok"))

    lines[0].follows, lines[1].follows = following = loop.create_future(), loop.create_future()
    first = cycle_on(lines[0])
    first.scope["state"] = state = asyncio.Event()
    held = weakref.ref(state)
    task = loop.create_task(serve(first, app))
    del first, state
    await turns()
    scopes.clear()
    lines[0].completed_cycles.clear()
    before = held()
    following[0].set_result(cycle_on(lines[1], method="HEAD"))
    await turns()
    was_done = task.done()
    following[1].set_result(cycle_on(lines[2]))
    await task

    assert (None, False) == (before, was_done)
    assert ["HEAD", "GET"] == [scope["method"] for scope in scopes]
    assert [True, False, True] == [line.written.endswith(b"\r\n\r\nok") for line in lines]


async def test_a_task_ends_where_none_will_follow() -> None:
    """As cancelled, and nothing is cut or logged: its requests are over."""
    line = RecordingLine()
    line.follows = asyncio.get_running_loop().create_future()
    task = asyncio.get_running_loop().create_task(serve(cycle_on(line), sends(start(200, LENGTH_2), body(b"ok"))))
    await turns()

    line.follows.cancel()
    await turns()

    assert (True, False) == (task.cancelled(), line.is_cut)


# What is received


async def test_what_came_of_a_body_is_received_at_once() -> None:
    """One piece as it came, several as one; the last message says that it is the last."""
    cycle = cycle_on(RecordingLine())
    piece = b"one"

    cycle.body_came(piece)
    first = await cycle.receive()
    cycle.body_came(b"t")
    cycle.body_came(b"wo")
    unread_bytes = cycle.unread_bytes
    second = await cycle.receive()
    cycle.body_ended()
    third = await cycle.receive()

    assert {"type": "http.request", "body": b"one", "more_body": True} == first
    assert piece is first["body"]
    assert ({"type": "http.request", "body": b"two", "more_body": True}, 3) == (second, unread_bytes)
    assert ({"type": "http.request", "body": b"", "more_body": False}, 0) == (third, cycle.unread_bytes)


async def test_receive_asks_for_more_where_nothing_is_there() -> None:
    """And waits for it."""
    line = RecordingLine()
    cycle = cycle_on(line)

    async with asyncio.TaskGroup() as tasks:
        receiving = tasks.create_task(cycle.receive())
        await turns()
        wanted, was_done = line.wanted, receiving.done()
        cycle.body_came(b"ok")

    assert (1, False) == (wanted, was_done)
    assert b"ok" == receiving.result()["body"]


async def test_all_who_wait_learn_that_the_client_has_gone() -> None:
    """As many as wait; that one of them is cancelled is nothing to the others."""
    cycle = cycle_on(RecordingLine())
    loop = asyncio.get_running_loop()
    first, second, third = (loop.create_task(cycle.receive()) for _ in range(3))
    await turns()
    first.cancel()
    await turns()
    cycle.lost()

    assert [{"type": "http.disconnect"}] * 2 == [await second, await third]


async def test_nothing_is_received_after_the_response() -> None:
    """Nobody listens to what comes then; whoever waits learns it."""
    cycle = cycle_on(RecordingLine())
    waiting = asyncio.get_running_loop().create_task(cycle.receive())
    await turns()

    await cycle.send(start(200, LENGTH_2))
    await cycle.send(body(b"ok"))

    assert [{"type": "http.disconnect"}] * 2 == [await waiting, await cycle.receive()]


async def test_what_is_sent_to_a_client_that_has_gone_is_swallowed() -> None:
    """Its application runs on as if nothing was the matter, and is told when it asks."""
    line = RecordingLine()
    cycle = cycle_on(line)
    cycle.lost()

    await serve(cycle, sends(start(), body(b"hello", more=True), body()))

    assert ([], False) == (line.writes, line.is_cut)
    assert {"type": "http.disconnect"} == await cycle.receive()


async def test_a_slow_client_suspends_send() -> None:
    """Until it has read enough."""
    line = RecordingLine()
    cycle = cycle_on(line)
    await cycle.send(start())
    line.writable.clear()

    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(cycle.send(body(b"ok")))
        await turns()
        was_done = sending.done()
        line.writable.set()

    assert (False, [cycle]) == (was_done, line.completed_cycles)


async def test_send_ends_where_a_slow_client_goes() -> None:
    """And writes nothing."""
    line = RecordingLine()
    cycle = cycle_on(line)
    await cycle.send(start())
    line.writable.clear()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cycle.send(body(b"ok")))
        await turns()
        cycle.lost()
        line.writable.set()

    assert [] == line.writes


# Expect: 100-continue

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_the_client_may_go_on_when_the_application_asks_for_the_body() -> None:
    """Not before, and once."""
    line = RecordingLine()
    cycle = cycle_on(line, expects_continue=True)

    for _ in range(2):
        receiving = asyncio.get_running_loop().create_task(cycle.receive())
        await turns()
        assert [CONTINUE] == line.writes
        cycle.body_came(b"ok")
        await receiving


async def test_a_body_that_came_unasked_is_not_asked_for() -> None:
    """The client did not wait for it."""
    line = RecordingLine()
    cycle = cycle_on(line, expects_continue=True)
    cycle.body_came(b"ok")

    await cycle.receive()
    waiting = asyncio.get_running_loop().create_task(cycle.receive())
    await turns()
    cycle.lost()
    await waiting

    assert [] == line.writes


async def test_no_100_comes_after_the_response_has_begun() -> None:
    """It would stand in the body."""
    line = RecordingLine()
    cycle = cycle_on(line, expects_continue=True)
    await cycle.send(start())
    await cycle.send(body(b"ok", more=True))

    waiting = asyncio.get_running_loop().create_task(cycle.receive())
    await turns()
    cycle.lost()
    await waiting

    assert CONTINUE not in line.written


async def test_an_answer_without_the_body_that_waits_ends_the_connection() -> None:
    """The client may send it or leave it: what comes next could be either, that body or a request."""
    line = RecordingLine()
    cycle = cycle_on(line, expects_continue=True)

    await serve(cycle, sends(start(413, LENGTH_2), body(b"no")))

    assert b"\r\nconnection: close\r\n" in line.written
    assert not cycle.is_persistent
