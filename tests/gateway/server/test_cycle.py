import asyncio
import json
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.cycle import Cycle, serve
from gateway.server.response_writer import ResponseWriter
from gateway.server.shared_state import DateLine

Headers = list[tuple[bytes, bytes]]


DATE = b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"


class RecordingTransport(asyncio.Transport):
    """Records what is written, without dates."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data).replace(DATE, b""))

    def is_closing(self) -> bool:
        return False


class RecordingConnection:
    """Records what a cycle asks of its connection."""

    def __init__(self) -> None:
        self.transport = RecordingTransport()
        self.writer = ResponseWriter(self.transport, DateLine(lambda: 784_111_777.5), loop=asyncio.get_running_loop())
        self.wanted = 0
        self.completed_cycles: list[Cycle] = []
        self.is_cut = False
        self.is_last = False
        self.much_is_to_come = False
        self.next_cycle: asyncio.Future[Cycle] | None = None

    def wants_close(self, cycle: Cycle) -> bool:
        return self.much_is_to_come

    def wants_body(self) -> None:
        self.wanted += 1

    def completed(self, cycle: Cycle) -> None:
        self.completed_cycles.append(cycle)

    def cut(self) -> None:
        self.is_cut = True

    def reuse_task(self, task: "asyncio.Task[None]") -> "asyncio.Future[Cycle] | None":
        return self.next_cycle

    @property
    def writes(self) -> list[bytes]:
        self.writer.flush()
        return self.transport.writes

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)


def cycle_on(
    connection: RecordingConnection,
    *,
    method: str = "GET",
    version: str = "1.1",
    is_persistent: bool = True,
    expects_continue: bool = False,
) -> Cycle:
    cycle = Cycle(
        {"type": "http", "method": method, "http_version": version},
        connection,
        connection.writer,
        loop=asyncio.get_running_loop(),
        is_persistent=is_persistent,
        expects_continue=expects_continue,
    )
    cycle.task = asyncio.current_task()  # a queue sets the serving task; a recording connection only passes it on
    return cycle


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
    connection = RecordingConnection()

    await serve(cycle_on(connection), sends(start(200, LENGTH_2), body(b"ok")))

    assert [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"] == connection.writes


async def test_a_large_first_body_is_not_copied_to_its_head() -> None:
    """Above 64 KiB a second write costs less."""
    connection = RecordingConnection()

    await serve(cycle_on(connection), sends(start(200, [(b"content-length", b"65537")]), body(b"a" * 65_537)))

    assert [b"HTTP/1.1 200 OK\r\ncontent-length: 65537\r\n\r\n", b"a" * 65_537] == connection.writes


async def test_a_head_waits_for_its_body() -> None:
    """ASGI requires this order; an empty piece of body releases the head."""
    connection = RecordingConnection()
    cycle = cycle_on(connection)

    await cycle.send(start())
    before = list(connection.writes)
    await cycle.send(body(b"", more=True))

    assert [] == before
    assert b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" == connection.written


async def test_a_body_of_unknown_length_is_chunked() -> None:
    """An empty piece becomes no chunk, because an empty chunk would be the end."""
    connection = RecordingConnection()

    await serve(
        cycle_on(connection),
        sends(start(), body(b"hello", more=True), body(b"", more=True), body(b"0123456789abcdef", more=True), body()),
    )

    chunks = b"5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"
    assert b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks == connection.written


async def test_chunks_wait_for_others_of_the_same_iteration() -> None:
    """The end of the body does not wait."""
    connection = RecordingConnection()
    cycle = cycle_on(connection)
    await cycle.send(start())
    await cycle.send(body(b"a", more=True))
    await cycle.send(body(b"b", more=True))
    before = list(connection.transport.writes)
    await cycle.send(body(b"c"))

    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    assert [] == before
    assert [head + b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"] == connection.transport.writes


async def test_http_1_0_gets_no_chunks() -> None:
    """The end of the connection is the end of its body."""
    connection = RecordingConnection()
    cycle = cycle_on(connection, version="1.0", is_persistent=False)

    await serve(cycle, sends(start(), body(b"hel", more=True), body(b"lo")))

    assert b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello" == connection.written
    assert not cycle.is_persistent


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"5")]])
async def test_head_has_no_body(headers: Headers) -> None:
    """Its content-length is that of the body that GET would get, and nothing is chunked."""
    connection = RecordingConnection()
    cycle = cycle_on(connection, method="HEAD")

    await serve(cycle, sends(start(200, headers), body(b"hel", more=True), body(b"lo")))

    assert b"HTTP/1.1 200 OK\r\n" + b"content-length: 5\r\n" * len(headers) + b"\r\n" == connection.written
    assert (True, [cycle]) == (cycle.is_persistent, connection.completed_cycles)


@pytest.mark.parametrize(("status", "phrase"), [(204, b"No Content"), (304, b"Not Modified")])
async def test_a_status_without_body_is_not_framed(status: int, phrase: bytes) -> None:
    """Such a response ends with its head, whatever a header says."""
    connection = RecordingConnection()

    await serve(cycle_on(connection), sends(start(status), body()))

    assert b"HTTP/1.1 %d %b\r\n\r\n" % (status, phrase) == connection.written


async def test_a_304_keeps_the_length_of_what_it_does_not_send() -> None:
    """RFC 9110, 8.6."""
    connection = RecordingConnection()

    await serve(cycle_on(connection), sends(start(304, [(b"content-length", b"5")]), body()))

    assert b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n" == connection.written


async def test_a_status_of_no_phrase_is_sent_without_one() -> None:
    """The space before the phrase stays (RFC 9112, 4)."""
    connection = RecordingConnection()

    await serve(cycle_on(connection), sends(start(299, LENGTH_2), body(b"ok")))

    assert b"HTTP/1.1 299 \r\ncontent-length: 2\r\n\r\nok" == connection.written


async def test_close_is_said_once() -> None:
    """Whether the client, the application or both want it."""
    connection = RecordingConnection()
    cycle = cycle_on(connection, is_persistent=False)

    await serve(cycle, sends(start(200, [(b"connection", b"Close"), *LENGTH_2]), body(b"ok")))

    assert b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok" == connection.written


async def test_the_application_may_end_the_connection() -> None:
    """The header `connection: close` does it."""
    cycle = cycle_on(RecordingConnection())

    await serve(cycle, sends(start(200, [(b"connection", b"close"), *LENGTH_2]), body(b"ok")))

    assert not cycle.is_persistent


async def test_the_framing_is_ours() -> None:
    """An application's transfer-encoding is left out, as ASGI asks: said twice, the body would be chunked twice."""
    connection = RecordingConnection()

    await serve(cycle_on(connection), sends(start(200, [(b"transfer-encoding", b"chunked")]), body(b"ok")))

    assert b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" == connection.written


async def test_a_header_may_come_as_a_list() -> None:
    """ASGI allows any iterable of two; those with values that never come again and others, in their order."""
    headers: list[Any] = [[b"x", b"y"], [b"x-request-id", b"1"], [b"connection", b"x"], *LENGTH_2, (b"a", b"b")]
    connection = RecordingConnection()
    cycle = cycle_on(connection)

    await serve(cycle, sends(start(200, headers), body(b"ok")))

    assert (
        b"HTTP/1.1 200 OK\r\nx: y\r\nx-request-id: 1\r\nconnection: x\r\ncontent-length: 2\r\na: b\r\n\r\nok"
        == connection.written
    )
    assert cycle.is_persistent


# What an application may not do


@pytest.mark.parametrize(
    "header", [(b"a", b"b\r\nc: d"), (b"a", b"b\n"), (b"a\r", b"b"), (b"a", b"\0"), (b"content-length", b"2\n")]
)
async def test_a_header_that_would_be_taken_for_more_than_one_is_an_error(header: tuple[bytes, bytes]) -> None:
    """Nothing has left then, and another response may still be sent."""
    connection = RecordingConnection()
    cycle = cycle_on(connection)

    with pytest.raises(RuntimeError):
        await cycle.send(start(200, [(b"server", b"warmgate"), header]))
    await serve(cycle, sends(start(200, LENGTH_2), body(b"ok")))

    assert b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" == connection.written


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
    cycle = cycle_on(RecordingConnection())
    for message in messages[:-1]:
        await cycle.send(message)

    with pytest.raises(RuntimeError, match="is not allowed at this point of a response"):
        await cycle.send(messages[-1])


@pytest.mark.parametrize("status", [0, 100, 101, 199, 1000, -200])
async def test_only_a_final_status_makes_a_response(status: int) -> None:
    """After an interim one the client would wait for another."""
    with pytest.raises(RuntimeError, match=f"^{status} is not a valid HTTP response status$"):
        await cycle_on(RecordingConnection()).send(start(status))


@pytest.mark.parametrize(
    "headers",
    [[*LENGTH_2, *LENGTH_2], *[[(b"content-length", value)] for value in (b"-2", b"+2", b"2, 2", b" 2", b"", b"0x2")]],
)
async def test_a_content_length_is_one_number(headers: Headers) -> None:
    """Two readers would else see two bodies. The application may start once more, and better."""
    connection = RecordingConnection()
    cycle = cycle_on(connection)

    with pytest.raises(RuntimeError, match="a response must have only one content-length header, with one number"):
        await cycle.send(start(200, headers))
    await cycle.send(start(200, LENGTH_2))
    await cycle.send(body(b"ok"))

    assert b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" == connection.written


@pytest.mark.parametrize("pieces", [[b"abc"], [b"ab", b"c"], [b"a"], [b"a", b""], []])
async def test_a_body_of_another_length_than_announced_is_cut(pieces: list[bytes]) -> None:
    """No byte too many leaves, and after one too few no other response can follow."""
    connection = RecordingConnection()
    messages = [body(piece, more=True) for piece in pieces] + [body()]

    await serve(cycle_on(connection), sends(start(200, LENGTH_2), *messages))

    assert (True, []) == (connection.is_cut, connection.completed_cycles)
    assert len(connection.written.partition(b"\r\n\r\n")[2]) <= 2


def assert_500(connection: RecordingConnection) -> None:
    head, data = connection.written.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert head.endswith(b"\r\nconnection: close")
    assert 1 == len(connection.completed_cycles)
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
    """Nothing of it reaches the client."""
    connection = RecordingConnection()

    await serve(cycle_on(connection), sends(start(200, [bad, *LENGTH_2]), body(b"ok")))

    assert_500(connection)


# What an application may fail at


def fails_after(*messages: Message) -> App:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await sends(*messages)(scope, receive, send)
        raise ValueError("boom")

    return app


@pytest.mark.parametrize("app", [fails_after(), fails_after(start(200, [(b"x", b"y")])), sends(), sends(start())])
async def test_an_application_that_fails_with_nothing_sent_is_answered_500(app: App) -> None:
    """Raised or returned, before its head or before its body: nothing had left."""
    connection = RecordingConnection()
    cycle = cycle_on(connection)

    await serve(cycle, app)

    assert_500(connection)
    assert not cycle.is_persistent


@pytest.mark.parametrize("end", [fails_after, sends])
async def test_an_application_that_fails_midway_is_cut(end: Callable[..., App]) -> None:
    """Without the chunk that ends a body: the client can tell that it is not complete."""
    connection = RecordingConnection()

    await serve(cycle_on(connection), end(start(), body(b"ok", more=True)))

    assert b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n" == connection.written
    assert (True, []) == (connection.is_cut, connection.completed_cycles)


async def test_a_failure_after_the_response_changes_nothing() -> None:
    """The connection may serve the next request by then."""
    connection = RecordingConnection()

    await serve(cycle_on(connection), fails_after(start(200, LENGTH_2), body(b"ok")))

    assert (False, 1) == (connection.is_cut, len(connection.completed_cycles))


@pytest.mark.parametrize(("messages", "is_cut"), [([], True), ([start(200, LENGTH_2), body(b"ok")], False)])
async def test_a_cancelled_request_is_cut(messages: list[Message], *, is_cut: bool) -> None:
    """Unless its response is out; the task ends as cancelled."""
    connection = RecordingConnection()

    async def hangs(scope: Message, receive: Receive, send: Send) -> None:
        await sends(*messages)(scope, receive, send)
        await asyncio.Event().wait()

    task = asyncio.get_running_loop().create_task(serve(cycle_on(connection), hangs))
    await turns()
    task.cancel()
    await turns()

    assert (True, is_cut) == (task.cancelled(), connection.is_cut)


# The next request


async def test_a_request_that_follows_is_served_by_the_same_task() -> None:
    """The task keeps nothing of a request while it waits for the next."""
    connections = RecordingConnection(), RecordingConnection(), RecordingConnection()
    loop = asyncio.get_running_loop()
    scopes: list[Message] = []

    async def app(scope: Message, _: Receive, send: Send) -> None:
        scopes.append(scope)
        await send(start(200, LENGTH_2))
        await send(body(b"ok"))

    connections[0].next_cycle, connections[1].next_cycle = following = loop.create_future(), loop.create_future()
    first = cycle_on(connections[0])
    first.scope["state"] = state = asyncio.Event()
    held = weakref.ref(state)
    task = loop.create_task(serve(first, app))
    del first, state
    await turns()
    scopes.clear()
    connections[0].completed_cycles.clear()
    before = held()
    following[0].set_result(cycle_on(connections[1], method="HEAD"))
    await turns()
    was_done = task.done()
    following[1].set_result(cycle_on(connections[2]))
    await task

    assert (None, False) == (before, was_done)
    assert ["HEAD", "GET"] == [scope["method"] for scope in scopes]
    assert [True, False, True] == [connection.written.endswith(b"\r\n\r\nok") for connection in connections]


async def test_a_task_ends_where_none_will_follow() -> None:
    """The task is cancelled, and nothing is cut or logged: its requests are over."""
    connection = RecordingConnection()
    connection.next_cycle = asyncio.get_running_loop().create_future()
    task = asyncio.get_running_loop().create_task(serve(cycle_on(connection), sends(start(200, LENGTH_2), body(b"ok"))))
    await turns()

    connection.next_cycle.cancel()
    await turns()

    assert (True, False) == (task.cancelled(), connection.is_cut)


# What is received


async def test_what_came_of_a_body_is_received_at_once() -> None:
    """One piece as it came, several as one; the last message says that it is the last."""
    cycle = cycle_on(RecordingConnection())
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


async def test_receive_asks_for_more_if_nothing_has_arrived() -> None:
    """It waits for the next piece."""
    connection = RecordingConnection()
    cycle = cycle_on(connection)

    async with asyncio.TaskGroup() as tasks:
        receiving = tasks.create_task(cycle.receive())
        await turns()
        wanted, was_done = connection.wanted, receiving.done()
        cycle.body_came(b"ok")

    assert (1, False) == (wanted, was_done)
    assert b"ok" == receiving.result()["body"]


async def test_all_who_wait_learn_that_the_client_has_gone() -> None:
    """A cancelled waiter does not disturb the others."""
    cycle = cycle_on(RecordingConnection())
    loop = asyncio.get_running_loop()
    first, second, third = (loop.create_task(cycle.receive()) for _ in range(3))
    await turns()
    first.cancel()
    await turns()
    cycle.lost()

    assert [{"type": "http.disconnect"}] * 2 == [await second, await third]


async def test_nothing_is_received_after_the_response() -> None:
    """A waiting `receive` returns, because nothing more is read."""
    cycle = cycle_on(RecordingConnection())
    waiting = asyncio.get_running_loop().create_task(cycle.receive())
    await turns()

    await cycle.send(start(200, LENGTH_2))
    await cycle.send(body(b"ok"))

    assert [{"type": "http.disconnect"}] * 2 == [await waiting, await cycle.receive()]


async def test_what_is_sent_to_a_client_that_has_gone_is_swallowed() -> None:
    """The application continues, and learns of it from `receive`."""
    connection = RecordingConnection()
    cycle = cycle_on(connection)
    cycle.lost()

    await serve(cycle, sends(start(), body(b"hello", more=True), body()))

    assert ([], False) == (connection.writes, connection.is_cut)
    assert {"type": "http.disconnect"} == await cycle.receive()


async def test_a_slow_client_suspends_send() -> None:
    """Until it has read enough."""
    connection = RecordingConnection()
    cycle = cycle_on(connection)
    await cycle.send(start())
    connection.writer.pause()

    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(cycle.send(body(b"ok")))
        await turns()
        was_done = sending.done()
        connection.writer.resume()

    assert (False, [cycle]) == (was_done, connection.completed_cycles)


async def test_send_ends_where_a_slow_client_goes() -> None:
    """It writes nothing."""
    connection = RecordingConnection()
    cycle = cycle_on(connection)
    await cycle.send(start())
    connection.writer.pause()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cycle.send(body(b"ok")))
        await turns()
        cycle.lost()
        connection.writer.resume()

    assert [] == connection.writes


# Expect: 100-continue

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_the_client_may_go_on_when_the_application_asks_for_the_body() -> None:
    """Not before, and once."""
    connection = RecordingConnection()
    cycle = cycle_on(connection, expects_continue=True)

    for _ in range(2):
        receiving = asyncio.get_running_loop().create_task(cycle.receive())
        await turns()
        assert [CONTINUE] == connection.writes
        cycle.body_came(b"ok")
        await receiving


async def test_a_body_that_came_unasked_is_not_asked_for() -> None:
    """The client did not wait for it."""
    connection = RecordingConnection()
    cycle = cycle_on(connection, expects_continue=True)
    cycle.body_came(b"ok")

    await cycle.receive()
    waiting = asyncio.get_running_loop().create_task(cycle.receive())
    await turns()
    cycle.lost()
    await waiting

    assert [] == connection.writes


async def test_no_100_comes_after_the_response_has_begun() -> None:
    """It would stand in the body."""
    connection = RecordingConnection()
    cycle = cycle_on(connection, expects_continue=True)
    await cycle.send(start())
    await cycle.send(body(b"ok", more=True))

    waiting = asyncio.get_running_loop().create_task(cycle.receive())
    await turns()
    cycle.lost()
    await waiting

    assert CONTINUE not in connection.written


async def test_an_answer_without_the_body_that_waits_ends_the_connection() -> None:
    """The client may send it or leave it: what comes next could be either, that body or a request."""
    connection = RecordingConnection()
    cycle = cycle_on(connection, expects_continue=True)

    await serve(cycle, sends(start(413, LENGTH_2), body(b"no")))

    assert b"\r\nconnection: close\r\n" in connection.written
    assert not cycle.is_persistent
