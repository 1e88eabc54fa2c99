"""The HTTP worker against a peer whose every byte is scripted, over real sockets and on both event loops."""

import asyncio
import itertools
import shutil
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.backends.backend import Call
from gateway.backends.upstream.reply import HttpReply
from gateway.backends.upstream.timeouts import Timeouts
from gateway.backends.worker import HttpWorker
from gateway.protocol.errors import ConnectFailed, ReplyBroken, UpstreamTimeout
from tests.gateway.backends.upstream.peer import Peer, Request, Script, Wire, free_port, serving
from tests.gateway.examples import Clock

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def call(*, streams: bool = False, body: bytes = b"{}", method: bytes = b"POST") -> Call:
    headers = [(b"content-type", b"application/json"), (b"x-request-id", b"7")]
    return Call(method, b"/v1/chat/completions", headers, body, streams, "tiny")


def worker_at(
    peer: Peer,
    *,
    timeouts: Timeouts | None = None,
    max_connections: int | None = None,
    reuse_within_s: float = 4.0,
    clock: Callable[[], float] = time.monotonic,
) -> HttpWorker:
    return HttpWorker(
        "w1",
        peer.url,
        timeouts=timeouts,
        max_connections=max_connections,
        reuse_within_s=reuse_within_s,
        sweep_s=0.01,
        clock=clock,
    )


def sends(*pieces: bytes) -> Script:
    async def script(_: Request, wire: Wire) -> None:
        await wire.send_pieces(*pieces)

    return script


async def hangs(_: Request, wire: Wire) -> None:
    await wire.until_caller_left()


async def pieces_of(reply: HttpReply) -> AsyncIterator[bytes]:
    while piece := await reply.read():
        yield piece


async def read_all(reply: HttpReply) -> bytes:
    return b"".join([piece async for piece in pieces_of(reply)])


async def answer_to(worker: HttpWorker, sent: Call) -> bytes:
    reply = await worker.send(sent)
    try:
        return await read_all(reply)
    finally:
        await reply.aclose()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # counts are read, they do not signal
            await asyncio.sleep(0.002)


def counts(worker: HttpWorker) -> tuple[int, int, int]:
    return worker.connections_open, worker.connections_idle, worker.calls_waiting


async def test_status_and_headers_are_the_workers_own() -> None:
    """What the worker answers comes back as it is, without the fields of the connection."""
    head = b"HTTP/1.1 418 Teapot\r\nContent-Length: 2\r\nX-Own: a b\r\nConnection: keep-alive\r\nDate: today\r\n\r\n"
    async with serving(sends(head + b"no")) as peer:
        worker = worker_at(peer)
        reply = await worker.send(call())

        assert (418, [(b"content-length", b"2"), (b"x-own", b"a b"), (b"date", b"today")]) == (
            reply.status,
            reply.headers,
        )
        assert b"no" == await read_all(reply)
        await reply.aclose()
        await worker.aclose()


@pytest.mark.parametrize(("size", "waits"), [(65_536, False), (65_537, True)])
async def test_other_tasks_run_before_a_long_body_is_written(size: int, waits: bool) -> None:
    """The worker was chosen in the same turn of the loop, and both take long."""
    async with serving(sends(OK)) as peer:
        worker = worker_at(peer)
        sending = worker.send(call(body=b"x" * size))
        sending.send(None)

        assert waits == worker.is_unused
        sending.close()
        await worker.aclose()


async def test_the_request_arrives_as_it_was_called() -> None:
    """Base path, the worker's own key and the end-to-end fields arrive; the body is untouched."""
    async with serving(sends(OK)) as peer:
        worker = HttpWorker("w1", peer.url + "/base/", api_key="sk-1")
        await answer_to(worker, call(body=b'{"a": 1.0}'))
        await worker.aclose()

    request = peer.requests[0]
    assert (b"POST /base/v1/chat/completions HTTP/1.1", b'{"a": 1.0}') == (request.line, request.body)
    assert [
        (b"host", peer.url.removeprefix("http://").encode()),
        (b"authorization", b"Bearer sk-1"),
        (b"content-type", b"application/json"),
        (b"x-request-id", b"7"),
        (b"content-length", b"10"),
    ] == request.headers


async def test_small_gets_work_too() -> None:
    """Health and model lists can be asked on the same connections."""
    async with serving(sends(OK)) as peer:
        worker = worker_at(peer)
        body = await answer_to(worker, Call(b"GET", b"/v1/models", [], b"", streams=False, model=""))
        await worker.aclose()

    assert b"hello" == body
    assert b"GET /v1/models HTTP/1.1" == peer.requests[0].line
    assert peer.requests[0].header(b"content-length") is None


async def test_an_answer_byte_by_byte_is_whole() -> None:
    """Head and body may come one byte at a time."""
    async with serving(sends(*(OK[i : i + 1] for i in range(len(OK))))) as peer:
        worker = worker_at(peer)

        assert b"hello" == await answer_to(worker, call())
        assert (1, 1, 0) == counts(worker)
        await worker.aclose()


async def test_a_body_until_the_end_of_the_connection_is_whole() -> None:
    """A worker that reports no length ends its body by closing."""

    async def script(_: Request, wire: Wire) -> None:
        await wire.send_pieces(b"HTTP/1.0 200 OK\r\n\r\nhel", b"lo")
        await wire.close()

    async with serving(script) as peer:
        worker = worker_at(peer)

        assert b"hello" == await answer_to(worker, call())
        assert (0, 0, 0) == counts(worker)
        await worker.aclose()


async def test_calls_in_a_row_share_a_connection() -> None:
    """Keep-alive: one connection carries call after call."""
    async with serving(sends(OK)) as peer:
        worker = worker_at(peer)
        for _ in range(5):
            await answer_to(worker, call())

        assert (1, 1, 0) == counts(worker)
        await worker.aclose()
    assert (1, 5) == (peer.connections, len(peer.requests))


async def test_a_connection_idle_for_too_long_is_replaced() -> None:
    """The gateway lets go before the worker does."""
    async with serving(sends(OK)) as peer:
        worker = worker_at(peer, reuse_within_s=0.03)
        await answer_to(worker, call())
        await until(lambda: counts(worker) == (0, 0, 0))
        await answer_to(worker, call())
        await worker.aclose()

    assert 2 == peer.connections


def dies_on_request(number: int, *, after_s: float = 0.0, is_reset: bool = False) -> Script:
    """Answers every request but the one of this number, counted over all connections, on which it closes."""
    seen = itertools.count(1)

    async def script(_: Request, wire: Wire) -> None:
        if next(seen) != number:
            await wire.send(OK)
            return
        await asyncio.sleep(after_s)
        if is_reset:
            wire.reset()
        else:
            await wire.close()

    return script


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_stale_connection_is_replaced_unnoticed(*, is_reset: bool) -> None:
    """A reused connection that dies without a byte of an answer costs one more connection, not an error."""
    async with serving(dies_on_request(2, is_reset=is_reset)) as peer:
        worker = worker_at(peer)
        answers = [await answer_to(worker, call()) for _ in range(2)]
        await worker.aclose()

    assert [b"hello", b"hello"] == answers
    assert 2 == peer.connections


async def test_a_fresh_connection_that_dies_is_an_error() -> None:
    """Without an earlier answer on it there is no reason to think that it was merely old."""
    async with serving(dies_on_request(1)) as peer:
        worker = worker_at(peer)
        with pytest.raises(ReplyBroken, match="worker w1: connection closed before status and headers"):
            await worker.send(call())
        await worker.aclose()

    assert 1 == peer.connections


async def test_a_stale_connection_is_replaced_only_once() -> None:
    """If the fresh connection dies as well, the worker is at fault."""

    async def answers_once(_: Request, wire: Wire) -> None:
        if len(peer.requests) == 1:
            await wire.send(OK)
        else:
            await wire.close()

    async with serving(answers_once) as peer:
        worker = worker_at(peer)
        await answer_to(worker, call())
        with pytest.raises(ReplyBroken):
            await worker.send(call())
        await worker.aclose()

    assert (2, 3) == (peer.connections, len(peer.requests))


async def test_a_late_death_is_not_taken_for_a_stale_connection() -> None:
    """A worker that had the request for a while may have worked on it: asking again is for the proxy to decide."""
    async with serving(dies_on_request(2, after_s=0.05)) as peer:
        seconds = itertools.count()
        worker = HttpWorker("w1", peer.url, clock=lambda: float(next(seconds)))
        await answer_to(worker, call())
        with pytest.raises(ReplyBroken):
            await worker.send(call())
        await worker.aclose()

    assert 2 == len(peer.requests)


async def test_a_death_after_the_first_byte_is_not_retried() -> None:
    """Once anything of an answer came, the request is never sent twice."""

    async def script(_: Request, wire: Wire) -> None:
        if len(peer.requests) == 1:
            await wire.send(OK)
        else:
            await wire.send(b"HTTP/1.1 2")
            await wire.close()

    async with serving(script) as peer:
        worker = worker_at(peer)
        await answer_to(worker, call())
        with pytest.raises(ReplyBroken):
            await worker.send(call())
        await worker.aclose()

    assert 2 == len(peer.requests)


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_stream_that_is_cut_is_broken(*, is_reset: bool) -> None:
    """What came is handed out, then the failure; nothing of the connection is left."""

    async def script(_: Request, wire: Wire) -> None:
        await wire.send_pieces(STREAM_HEAD, b"3\r\na\n\n\r\n")
        await is_read.wait()  # a reset throws away what the other side has not read yet
        if is_reset:
            wire.reset()
        else:
            await wire.close()

    is_read = asyncio.Event()
    async with serving(script) as peer:
        worker = worker_at(peer)
        reply = await worker.send(call(streams=True))

        assert b"a\n\n" == await reply.read()
        is_read.set()
        with pytest.raises(ReplyBroken, match="in the response body"):
            await reply.read()
        await reply.aclose()
        assert (0, 0, 0) == counts(worker)
        await worker.aclose()


async def test_a_refused_connection_is_connect_failed() -> None:
    """Nothing was sent, and nothing is counted."""
    worker = HttpWorker("w1", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ConnectFailed, match="worker w1"):
        await worker.send(call())

    assert (0, 0, 0) == counts(worker)


async def test_an_unknown_name_is_connect_failed() -> None:
    """A name that no one knows is a worker that cannot be reached."""
    name = ".".join(["x" * 60] * 5)  # so long that no name server is asked, which might be silent
    worker = HttpWorker("w1", f"http://{name}")
    with pytest.raises(ConnectFailed, match="gaierror"):
        await worker.send(call())


def over_tls(peer: Peer) -> str:
    """The URL of a peer that does not speak TLS, so that the handshake never ends."""
    return peer.url.replace("http://", "https://")


async def test_a_connect_that_takes_too_long_is_a_timeout() -> None:
    """The TLS handshake counts as part of it."""
    async with serving(hangs) as peer:
        worker = HttpWorker("w1", over_tls(peer), timeouts=Timeouts(connect_s=0.05))
        with pytest.raises(UpstreamTimeout, match=r"worker w1: connect timed out after 0\.05 s") as timeout:
            await worker.send(call())

        assert "connect" == timeout.value.phase
        assert (0, 0, 0) == counts(worker)
        async with asyncio.timeout(60):
            await peer.left.wait()


@pytest.mark.parametrize("streams", [False, True])
async def test_no_first_byte_in_time_is_a_timeout(*, streams: bool) -> None:
    """The worker sees its caller go, and nothing of the connection is left."""
    async with serving(hangs) as peer:
        worker = worker_at(peer, timeouts=Timeouts(first_byte_s=0.05))
        with pytest.raises(UpstreamTimeout) as timeout:
            await worker.send(call(streams=streams))

        assert "first_byte" == timeout.value.phase
        assert (0, 0, 0) == counts(worker)
        async with asyncio.timeout(60):
            await peer.left.wait()
        await worker.aclose()


@pytest.mark.parametrize(("first_byte_s", "own_s"), [(0.05, 600.0), (600.0, 0.05), (0.05, None)])
async def test_the_shorter_of_two_patiences_counts(first_byte_s: float, own_s: float | None) -> None:
    """A call may bring less than the worker has, not more."""
    async with serving(hangs) as peer:
        worker = worker_at(peer, timeouts=Timeouts(first_byte_s=own_s))
        with pytest.raises(UpstreamTimeout) as timeout:
            await worker.send(call(streams=True), first_byte_s=first_byte_s)

        assert "first_byte" == timeout.value.phase
        assert (0, 0, 0) == counts(worker)
        await worker.aclose()


async def test_a_patience_ends_with_the_first_byte() -> None:
    """What a stream does afterwards is measured by its pauses."""
    clock = Clock(0.0)
    goes_on = asyncio.Event()

    async def script(_: Request, wire: Wire) -> None:
        await wire.send(STREAM_HEAD + b"1\r\na\r\n")
        await goes_on.wait()
        await wire.send(b"1\r\nb\r\n0\r\n\r\n")

    async with serving(script) as peer:
        worker = worker_at(peer, clock=clock)
        reply = await worker.send(call(streams=True), first_byte_s=1.0)
        assert b"a" == await reply.read()
        clock.now = 100.0
        reading = asyncio.create_task(reply.read())
        await asyncio.sleep(0.05)  # several sweeps
        goes_on.set()

        assert b"b" == await reading
        await reply.aclose()
        await worker.aclose()


class Deaf:
    """Takes a connection and reads nothing until it is reported to."""

    def __init__(self) -> None:
        self.listens = asyncio.Event()
        self.connections = 0
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await self.listens.wait()
        await Wire(reader, writer).until_caller_left()
        writer.transport.abort()
        self.left.set()


@asynccontextmanager
async def deaf_worker(timeouts: Timeouts) -> AsyncIterator[tuple[Deaf, HttpWorker]]:
    deaf = Deaf()
    server = await asyncio.start_server(deaf.serve, "127.0.0.1", 0)
    worker = HttpWorker("w1", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeouts=timeouts, sweep_s=0.01)
    yield deaf, worker
    deaf.listens.set()
    async with asyncio.timeout(60):
        await deaf.left.wait()
    await worker.aclose()
    server.close()


async def test_a_worker_that_does_not_take_the_body_is_a_first_byte_timeout() -> None:
    """A request that cannot be written down the line does not hang for ever."""
    async with deaf_worker(Timeouts(first_byte_s=0.1)) as (_, worker):
        with pytest.raises(UpstreamTimeout) as timeout:
            await worker.send(call(body=bytes(20_000_000)))

        assert "first_byte" == timeout.value.phase
        assert (0, 0, 0) == counts(worker)


async def test_cancelling_while_writing_leaves_nothing() -> None:
    """The rest of a large body is thrown away with its connection."""
    async with deaf_worker(Timeouts()) as (deaf, worker):
        sending = asyncio.create_task(worker.send(call(body=bytes(20_000_000))))
        await until(lambda: deaf.connections == 1)
        sending.cancel()
        await asyncio.wait([sending])

        assert sending.cancelled()
        assert (0, 0, 0) == counts(worker)


async def test_silence_between_two_pieces_is_a_timeout() -> None:
    """A stream that stops is cut after the idle time."""

    async def script(_: Request, wire: Wire) -> None:
        await wire.send_pieces(STREAM_HEAD, b"1\r\nx\r\n")
        await wire.until_caller_left()

    async with serving(script) as peer:
        clock = Clock()
        worker = worker_at(peer, timeouts=Timeouts(idle_s=5.0), clock=clock)
        reply = await worker.send(call(streams=True))

        assert b"x" == await reply.read()
        reading = asyncio.create_task(reply.read())
        await asyncio.sleep(0)
        clock.now += 5.0
        with pytest.raises(UpstreamTimeout) as timeout:
            await reading
        assert "idle" == timeout.value.phase
        await reply.aclose()
        assert (0, 0, 0) == counts(worker)
        await worker.aclose()


async def test_a_call_that_never_stops_is_a_timeout() -> None:
    """A stream that always has one more byte is cut after the total time."""

    async def script(_: Request, wire: Wire) -> None:
        await wire.send(STREAM_HEAD)
        while not wire.writer.transport.is_closing():
            await wire.send_pieces(b"1\r\nx\r\n")

    async with serving(script) as peer:
        clock = Clock()
        worker = worker_at(peer, timeouts=Timeouts(total_s=50.0), clock=clock)
        reply = await worker.send(call(streams=True))
        await reply.read()
        clock.now += 50.0
        with pytest.raises(UpstreamTimeout) as timeout:
            await read_all(reply)

        assert "total" == timeout.value.phase
        await reply.aclose()
        await worker.aclose()


async def test_cancelling_while_connecting_leaves_nothing() -> None:
    """No connection and no slot stays behind."""
    async with serving(hangs) as peer:
        worker = HttpWorker("w1", over_tls(peer), max_connections=1)
        sending = asyncio.create_task(worker.send(call()))
        await until(lambda: peer.connections == 1)
        sending.cancel()
        await asyncio.wait([sending])

        assert sending.cancelled()
        assert (0, 0, 0) == counts(worker)
        async with asyncio.timeout(60):
            await peer.left.wait()


@pytest.mark.parametrize(
    ("sent", "first"),
    [
        (call(), b""),
        (call(), b"HTTP/1.1 200 OK\r\ncontent-le"),
        (call(streams=True), STREAM_HEAD),
    ],
    ids=["waiting for the answer", "in the head", "before the first event"],
)
async def test_cancelling_a_send_cuts_the_connection(sent: Call, first: bytes) -> None:
    """In every phase the worker sees its caller go, and the slot is free at once."""
    has_begun = asyncio.Event()

    async def script(_: Request, wire: Wire) -> None:
        await wire.send(first)
        has_begun.set()
        await wire.until_caller_left()

    async with serving(script) as peer:
        worker = worker_at(peer, max_connections=1)
        sending = asyncio.create_task(worker.send(sent))
        await has_begun.wait()
        await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.wait([sending])

        assert sending.cancelled()
        assert (0, 0, 0) == counts(worker)
        async with asyncio.timeout(60):
            await peer.left.wait()
        await worker.aclose()


async def test_closing_a_reply_early_cuts_the_connection() -> None:
    async def script(_: Request, wire: Wire) -> None:
        await wire.send(STREAM_HEAD + b"1\r\nx\r\n")
        await wire.until_caller_left()

    async with serving(script) as peer:
        worker = worker_at(peer)
        reply = await worker.send(call(streams=True))
        await reply.aclose()

        assert (0, 0, 0) == counts(worker)
        async with asyncio.timeout(60):
            await peer.left.wait()
        await worker.aclose()


@pytest.mark.parametrize("streams", [True, False])
async def test_calls_without_a_byte_of_their_answer_can_be_abandoned(streams: bool) -> None:
    """Also one that waits for a connection; the worker can be called again."""
    async with serving(hangs) as peer:
        worker = worker_at(peer, max_connections=1)
        calls = [asyncio.create_task(worker.send(call(streams=streams))) for _ in range(2)]
        await until(lambda: len(peer.requests) == 1 and worker.calls_waiting == 1)
        worker.abandon_unanswered()
        failures = await asyncio.gather(*calls, return_exceptions=True)

        assert {ReplyBroken: 1, ConnectFailed: 1} == Counter(map(type, failures))
        assert (0, 0, 0) == counts(worker)
        again = asyncio.create_task(worker.send(call()))
        await until(lambda: len(peer.requests) == 2)
        worker.abandon_unanswered()
        with pytest.raises(ReplyBroken, match="health checks failed before the worker responded"):
            await again
        await worker.aclose()


async def test_an_answer_that_has_begun_is_not_abandoned() -> None:
    """A worker too busy to say that it is well may still be at it."""

    async def script(_: Request, wire: Wire) -> None:
        await wire.send(STREAM_HEAD + b"1\r\nx\r\n")
        await going_on.wait()
        await wire.send(b"1\r\ny\r\n0\r\n\r\n")

    going_on = asyncio.Event()
    async with serving(script) as peer:
        worker = worker_at(peer)
        reply = await worker.send(call(streams=True))
        first = await reply.read()
        rest = asyncio.create_task(reply.read())
        await asyncio.sleep(0)
        worker.abandon_unanswered()
        going_on.set()

        assert (b"x", b"y") == (first, await rest)
        await reply.aclose()
        await worker.aclose()


async def test_calls_over_the_limit_wait_for_a_connection() -> None:
    """The limit holds, and every call gets its answer."""
    open_now: list[int] = []

    async def script(_: Request, wire: Wire) -> None:
        open_now.append(worker.connections_open)
        await wire.send(OK)

    async with serving(script) as peer:
        worker = worker_at(peer, max_connections=2)
        answers = await asyncio.gather(*(answer_to(worker, call()) for _ in range(20)))

        assert [b"hello"] * 20 == answers
        assert (2, 2, 2, 0) == (max(open_now), *counts(worker))
        await worker.aclose()
    assert 2 == peer.connections


async def test_a_large_body_goes_up_and_down() -> None:
    """Five megabytes each way arrive whole, with the counts as before."""
    body = bytes(range(256)) * 20_000

    async def echoes(request: Request, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(request.body))
        await wire.send(request.body)

    async with serving(echoes) as peer:
        worker = worker_at(peer)

        assert body == await answer_to(worker, call(body=body))
        assert (1, 1, 0) == counts(worker)
        await worker.aclose()


async def test_a_slow_reader_holds_the_worker_back() -> None:
    """While no one reads, what the worker can write stays far below the whole body; then all of it arrives."""
    size = 50_000_000
    written = 0

    async def script(_: Request, wire: Wire) -> None:
        nonlocal written
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for __ in range(size // 100_000):
            await wire.send(bytes(100_000))
            written += 100_000

    async with serving(script) as peer:
        worker = worker_at(peer)
        reply = await worker.send(call())
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.05)
        first = await reply.read()

        assert len(first) <= 65_536 + 262_144
        assert written < size // 2
        assert size == len(first) + sum([len(piece) async for piece in pieces_of(reply)])
        await reply.aclose()
        await worker.aclose()


async def test_an_early_refusal_of_a_body_gets_through() -> None:
    """A worker that answers before it has read the whole request is heard; that connection is not used again."""

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await writer.drain()
        await is_read.wait()
        writer.transport.abort()
        is_gone.set()

    is_read, is_gone = asyncio.Event(), asyncio.Event()
    server = await asyncio.start_server(refuses, "127.0.0.1", 0)
    worker = HttpWorker("w1", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    reply = await worker.send(call(body=bytes(20_000_000)))
    body = await read_all(reply)
    await reply.aclose()
    is_read.set()
    await is_gone.wait()
    server.close()

    assert (413, b"no", (0, 0, 0)) == (reply.status, body, counts(worker))


async def test_closing_the_worker_ends_its_calls() -> None:
    """Calls in flight break, later ones are reported that there is nothing to connect with."""
    async with serving(hangs) as peer:
        worker = worker_at(peer)
        sending = asyncio.create_task(worker.send(call()))
        await until(lambda: len(peer.requests) == 1)
        await worker.aclose()

        with pytest.raises(ReplyBroken):
            await sending
        with pytest.raises(ConnectFailed, match="closed"):
            await worker.send(call())
        assert (0, 0, 0) == counts(worker)


async def test_a_retired_worker_closes_each_connection_with_its_call() -> None:
    """A caller that asks it all the same gets an answer, on a connection that is not kept either."""
    async with serving(sends(OK)) as peer:
        worker = worker_at(peer)
        await answer_to(worker, call())
        assert (1, 1, 0) == counts(worker)
        worker.retire()

        assert (0, 0, 0) == counts(worker)

        await answer_to(worker, call())

        assert (0, 0, 0) == counts(worker)


async def test_a_worker_at_rest_leaves_no_timer() -> None:
    """When the last connection is gone nothing of the worker is left on the loop."""
    async with serving(sends(OK)) as peer:
        worker = worker_at(peer, reuse_within_s=0.02)
        await answer_to(worker, call())
        await until(lambda: counts(worker) == (0, 0, 0))

        assert worker._pool._sweep_timer is None


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "1", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-out", str(cert), "-keyout", str(key)], check=True, capture_output=True)
    return cert, key


async def test_https_is_verified(certificate: tuple[Path, Path]) -> None:
    """A certificate that the context trusts carries calls; one that it does not is a failed connect."""
    cert, key = certificate
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(cert, key)
    async with serving(sends(OK), ssl_context=server_context) as peer:
        trusting = HttpWorker("w1", peer.url, ssl_context=ssl.create_default_context(cafile=str(cert)))
        strict = HttpWorker("w2", peer.url)

        assert [b"hello", b"hello"] == [await answer_to(trusting, call()) for _ in range(2)]
        with pytest.raises(ConnectFailed, match="worker w2: connection failed \\(SSLCertVerificationError\\)"):
            await strict.send(call())
        assert 1 == trusting.connections_open
        await trusting.aclose()
