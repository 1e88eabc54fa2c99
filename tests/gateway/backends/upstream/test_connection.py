"""What a connection makes of the bytes that come, packet by packet, without a socket in between."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.backends.upstream.connection import UpstreamConnection
from gateway.backends.upstream.response_parser import ResponseLimits
from gateway.protocol.errors import ReplyBroken, UpstreamTimeout

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class RecordingTransport(asyncio.Transport):
    """Keeps what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_aborted = False
        self.is_paused = False
        self.unsent_bytes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.written.extend(list_of_data)

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Line:
    """A connection on which one request has been written, at time 0."""

    def __init__(
        self,
        *,
        streams: bool = False,
        is_head_request: bool = False,
        limits: ResponseLimits | None = None,
        body: bytes = b"{}",
    ) -> None:
        self.lost: list[UpstreamConnection] = []
        self.transport = RecordingTransport()
        self.connection = UpstreamConnection(
            "w1", loop=asyncio.get_running_loop(), limits=limits or ResponseLimits(), on_lost=self.lost.append
        )
        self.connection.connection_made(self.transport)
        self.begin(streams=streams, is_head_request=is_head_request, body=body)

    def begin(self, *, streams: bool = False, is_head_request: bool = False, body: bytes = b"{}") -> None:
        self.connection.begin(
            b"POST / HTTP/1.1\r\n\r\n",
            body,
            streams=streams,
            is_head_request=is_head_request,
            first_byte_deadline=10.0,
            total_deadline=100.0,
            idle_s=5.0,
        )

    def come(self, *packets: bytes) -> None:
        for packet in packets:
            self.connection.data_received(packet)


async def is_waiting(task: "asyncio.Task[None]") -> bool:
    for _ in range(3):
        await asyncio.sleep(0)
    return not task.done()


async def test_a_small_request_is_one_write() -> None:
    """Head and body go out together."""
    assert [b"POST / HTTP/1.1\r\n\r\n{}"] == Line().transport.written


async def test_a_large_body_is_written_without_a_copy() -> None:
    """A prompt of 220 kB is handed to the transport as the object that came in."""
    body = bytes(220_000)

    assert Line(body=body).transport.written[1] is body


async def test_a_long_body_goes_out_a_piece_in_each_turn_of_the_loop() -> None:
    """Others have their turns in between; the pieces are all of it, in order."""
    body = bytes(range(256)) * 2500
    line = Line(body=body)
    sizes = [len(b"".join(line.transport.written[1:]))]
    while sizes[-1] < len(body):
        await asyncio.sleep(0)
        sizes.append(len(b"".join(line.transport.written[1:])))

    assert [262_144, 524_288, 640_000] == sizes
    assert body == b"".join(line.transport.written[1:])


async def test_the_rest_of_a_body_stays_behind_when_the_call_is_over() -> None:
    """Given up, or answered before all of it was out: then the connection is not used again."""
    given_up, answered = Line(body=b"x" * 640_000), Line(body=b"x" * 640_000)
    answered.come(OK + b"hello")

    assert not answered.connection.is_reusable()

    for line in (given_up, answered):
        line.connection.abort()
    for _ in range(5):
        await asyncio.sleep(0)

    assert [262_144, 262_144] == [len(b"".join(line.transport.written[1:])) for line in (given_up, answered)]


async def test_an_answer_in_one_packet_is_complete_at_once() -> None:
    """Status, headers and body of one packet are there without a suspension."""
    line = Line()
    line.come(OK + b"hello")
    await line.connection.first_byte()

    assert (200, [(b"content-length", b"5")], True, b"hello") == (
        line.connection.response.status,
        line.connection.response.headers,
        line.connection.response.is_complete,
        line.connection.take_body(),
    )
    assert line.connection.is_reusable()


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"hello",
        CHUNKED + b"2;name=value\r\nhe\r\n3\r\nllo\r\n0\r\nx-trailer: 1\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + OK + b"hello",
    ],
    ids=["length", "chunks with extension and trailer", "interim answers before"],
)
async def test_every_cut_of_an_answer_reads_the_same(answer: bytes) -> None:
    """Wherever the packets are cut, and byte by byte, the same answer comes out and the connection is good."""
    cuts = [(answer[:i], answer[i:]) for i in range(1, len(answer))]
    for packets in [*cuts, tuple(answer[i : i + 1] for i in range(len(answer)))]:
        line = Line()
        body = b""
        for packet in packets:
            line.come(packet)
            body += b"".join(line.connection.response.pieces)
            line.connection.response.pieces.clear()

        assert (200, b"hello") == (line.connection.response.status, body)
        assert line.connection.is_reusable()
        assert b"link" not in dict(line.connection.response.headers)
        assert b"x-trailer" not in dict(line.connection.response.headers)


async def test_pieces_of_one_packet_are_taken_together() -> None:
    """Several events in one packet are one read, however many chunks they are."""
    line = Line(streams=True)
    line.come(CHUNKED + b"3\r\na\n\n\r\n3\r\nb\n\n\r\n")

    assert b"a\n\nb\n\n" == line.connection.take_body()


async def test_a_stream_waits_for_the_first_byte_of_its_body() -> None:
    """Status 200 alone is not yet an answer to a call that streams."""
    line = Line(streams=True)
    line.come(CHUNKED)
    waiting = asyncio.get_running_loop().create_task(line.connection.first_byte())

    assert await is_waiting(waiting)

    line.come(b"1\r\n")

    assert await is_waiting(waiting)

    line.come(b"x\r\n")
    await waiting

    assert b"x" == line.connection.take_body()


@pytest.mark.parametrize(("streams", "status"), [(False, b"200 OK"), (True, b"503 Busy")])
async def test_headers_are_enough_otherwise(*, streams: bool, status: bytes) -> None:
    """A call that does not stream, or that is refused, has its answer with the headers."""
    line = Line(streams=streams)
    line.come(b"HTTP/1.1 " + status + b"\r\ncontent-length: 5\r\n\r\n")

    await line.connection.first_byte()

    assert int(status[:3]) == line.connection.response.status
    assert not line.connection.response.is_complete


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_some_statuses_have_no_body(status: bytes) -> None:
    """204 and 304 end with their headers, whatever length they announce."""
    line = Line()
    line.come(b"HTTP/1.1 " + status + b"\r\ncontent-length: 5\r\n\r\n")

    assert line.connection.response.is_complete
    assert line.connection.is_reusable()


async def test_a_head_request_has_no_body() -> None:
    """The answer to HEAD ends with its headers; its connection is not used again."""
    line = Line(is_head_request=True)
    line.come(OK)

    assert line.connection.response.is_complete
    assert not line.connection.is_reusable()


async def test_a_body_may_last_until_the_connection_closes() -> None:
    """Without length and chunks the orderly end of the connection is the end of the body."""
    line = Line()
    line.come(b"HTTP/1.1 200 OK\r\n\r\nhello")
    line.connection.connection_lost(None)

    assert b"hello" == line.connection.take_body()
    assert line.connection.response.is_complete
    assert not line.connection.is_reusable()


async def test_a_reset_is_never_the_end_of_a_body() -> None:
    """A body without length that ends in a reset is broken."""
    line = Line()
    line.come(b"HTTP/1.1 200 OK\r\n\r\nhello")
    line.connection.connection_lost(ConnectionResetError())

    assert b"hello" == line.connection.take_body()
    with pytest.raises(ReplyBroken, match="worker w1: connection closed in the response body"):
        line.connection.take_body()


@pytest.mark.parametrize("start", [OK, CHUNKED + b"5\r\n"])
async def test_bytes_before_the_cut_are_handed_out(start: bytes) -> None:
    """A cut body gives first what came, then the failure, as often as it is asked."""
    line = Line()
    line.come(start + b"hel")
    line.connection.connection_lost(None)

    assert b"hel" == line.connection.take_body()
    for _ in range(2):
        with pytest.raises(ReplyBroken, match="in the response body"):
            line.connection.take_body()


async def test_an_answer_that_is_not_http_is_broken() -> None:
    """A peer that speaks something else ends the exchange at once."""
    line = Line()
    line.come(b"SSH-2.0-OpenSSH_9.6\r\n")

    with pytest.raises(ReplyBroken, match=r"worker w1: invalid HTTP/1\.1 in the response head"):
        await line.connection.first_byte()
    assert line.transport.is_aborted


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: 1\r\n folded\r\n\r\n",
    ],
    ids=["upgrade", "two lengths", "length and chunks", "folded field"],
)
async def test_an_ambiguous_head_is_broken(head: bytes) -> None:
    """What two readers could read differently is not read at all."""
    line = Line()
    line.come(head)

    with pytest.raises(ReplyBroken):
        await line.connection.first_byte()


@pytest.mark.parametrize("coding", [b"gzip", b"gzip, chunked"])
async def test_a_body_in_an_unknown_coding_is_broken(coding: bytes) -> None:
    """No one downstream would learn that it is compressed."""
    line = Line()
    line.come(b"HTTP/1.1 200 OK\r\ntransfer-encoding: " + coding + b"\r\n\r\n")

    with pytest.raises(
        ReplyBroken, match=r"unsupported transfer coding \(only chunked is allowed\) in the response head"
    ):
        await line.connection.first_byte()


async def test_a_bad_chunk_is_broken_after_the_good_ones() -> None:
    """Good chunks are handed out, then the failure."""
    line = Line()
    line.come(CHUNKED + b"1\r\nx\r\nzz\r\n")

    assert b"x" == line.connection.take_body()
    with pytest.raises(ReplyBroken, match=r"invalid HTTP/1\.1 in the response body"):
        line.connection.take_body()


@pytest.mark.parametrize("garbage", [b"garbage", b"H", OK + b"other"])
async def test_bytes_after_the_answer_cost_only_the_connection(garbage: bytes) -> None:
    """What follows a complete answer is never mixed into it, and no one gets that connection again."""
    line = Line()
    line.come(OK + b"hello" + garbage)
    await line.connection.first_byte()

    assert b"hello" == line.connection.take_body()
    assert not line.connection.is_reusable()


async def test_bytes_while_idle_end_the_connection() -> None:
    """A peer that speaks without being asked is cut."""
    line = Line()
    line.come(OK + b"hello")
    line.connection.rest(1.0)
    line.come(b"HTTP/1.1 408 Request Timeout\r\n\r\n")

    assert line.transport.is_aborted


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        CHUNKED + b"0\r\nconnection: close\r\n\r\n",
    ],
)
async def test_a_peer_that_wants_to_close_is_not_reused(head: bytes) -> None:
    """``connection: close``, even in a trailer, and HTTP/1.0 end the connection with the answer."""
    line = Line()
    line.come(head)

    assert line.connection.response.is_complete
    assert not line.connection.is_reusable()


async def test_an_answer_before_the_request_is_out_ends_the_connection() -> None:
    """A worker that refuses a body half way gets its answer through; the rest of the body stays unsent."""
    line = Line()
    line.transport.unsent_bytes = 1000
    line.come(OK + b"hello")

    assert line.connection.response.is_complete
    assert not line.connection.is_reusable()


async def test_a_connection_carries_one_exchange_after_the_other() -> None:
    """Nothing of one answer is left in the next."""
    line = Line(streams=True)
    line.come(b"HTTP/1.1 200 OK\r\nx-a: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")
    line.connection.rest(1.0)
    line.begin()
    line.come(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno")
    await line.connection.first_byte()

    assert (404, [(b"content-length", b"2")], b"no", 2) == (
        line.connection.response.status,
        line.connection.response.headers,
        line.connection.take_body(),
        line.connection.exchanges,
    )


async def test_too_many_header_fields_are_broken() -> None:
    """One field more than the limit ends the exchange."""
    line = Line(limits=ResponseLimits(max_headers=2))
    line.come(b"HTTP/1.1 200 OK\r\na: 1\r\nb: 2\r\nc: 3\r\n\r\n")

    with pytest.raises(ReplyBroken, match="the worker sent too many header fields in the response head"):
        await line.connection.first_byte()


@pytest.mark.parametrize("is_one_packet", [True, False])
async def test_too_long_headers_are_broken(*, is_one_packet: bool) -> None:
    """Headers over the limit end the exchange, whether they come at once or never end."""
    line = Line(limits=ResponseLimits(max_head_bytes=1000))
    value = b"v" * 1001
    line.come(
        *([b"HTTP/1.1 200 OK\r\na: " + value + b"\r\n\r\n"] if is_one_packet else [b"HTTP/1.1 200 OK\r\na: ", value])
    )

    with pytest.raises(ReplyBroken, match=r"too many (header )?bytes"):
        await line.connection.first_byte()


async def test_a_long_body_beside_a_short_head_is_fine() -> None:
    """Only headers count against their limit, not the body that came in the same packet."""
    line = Line(limits=ResponseLimits(max_head_bytes=1000))
    line.come(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + bytes(5000))

    assert 5000 == len(line.connection.take_body())


@pytest.mark.parametrize("endless", [b"5;" + b"x" * 600, b"0\r\nt: " + b"x" * 600])
async def test_framing_without_end_is_broken(endless: bytes) -> None:
    """A chunk extension or a trailer that goes on for ever is cut at the limit for headers."""
    line = Line(limits=ResponseLimits(max_head_bytes=1000))
    line.come(CHUNKED, endless, b"x" * 600)

    with pytest.raises(ReplyBroken, match="too many bytes in headers or framing"):
        line.connection.take_body()


async def test_reading_stops_above_the_high_water_mark() -> None:
    """Body that no one takes stops the reading; taking it starts the reading again."""
    line = Line(limits=ResponseLimits(high_water_bytes=1000))
    line.come(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + bytes(1001))

    assert line.transport.is_paused
    assert 1001 == len(line.connection.take_body())
    assert not line.transport.is_paused


async def test_the_first_byte_has_a_deadline() -> None:
    """Headers without a first byte of the stream do not stop that clock."""
    line = Line(streams=True)
    line.come(CHUNKED)
    waiting = asyncio.get_running_loop().create_task(line.connection.first_byte())

    assert await is_waiting(waiting)
    line.connection.expire(9.9)
    assert await is_waiting(waiting)
    line.connection.expire(10.0)
    with pytest.raises(UpstreamTimeout, match="worker w1: no first byte within the time limit") as timeout:
        await waiting
    assert "first_byte" == timeout.value.phase
    assert line.transport.is_aborted


async def test_silence_has_a_deadline_only_while_somebody_waits() -> None:
    """The idle time runs from the moment the reader asks, so a slow reader does not use it up."""
    line = Line()
    line.come(OK + b"hel")
    await line.connection.first_byte()
    line.connection.take_body()
    line.connection.expire(50.0)
    waiting = asyncio.get_running_loop().create_task(line.connection.wait_for_body(50.0))

    assert await is_waiting(waiting)
    line.connection.expire(54.9)
    assert await is_waiting(waiting)
    line.connection.expire(55.0)
    await waiting
    with pytest.raises(UpstreamTimeout, match="no data within the idle time limit") as timeout:
        line.connection.take_body()
    assert "idle" == timeout.value.phase


async def test_the_total_time_runs_without_a_reader() -> None:
    """A call that takes too long is cut even while no one waits for it."""
    line = Line()
    line.come(OK + b"hel")
    line.connection.expire(100.0)

    assert line.transport.is_aborted
    assert b"hel" == line.connection.take_body()
    with pytest.raises(UpstreamTimeout) as timeout:
        line.connection.take_body()
    assert "total" == timeout.value.phase


async def test_no_deadline_runs_after_the_end() -> None:
    """A complete answer that is still being read, and a connection at rest, do not time out."""
    line = Line()
    line.come(OK + b"hello")
    line.connection.expire(1000.0)
    assert line.connection.is_reusable()

    line.connection.rest(1000.0)
    line.connection.expire(9999.0)
    assert line.connection.is_reusable()


async def test_a_death_before_any_byte_is_reported_apart() -> None:
    """Only a peer that closed without a single byte of an answer lets the pool try again."""
    silent, spoke = Line(), Line()
    silent.connection.connection_lost(None)
    spoke.come(b"H")
    spoke.connection.connection_lost(None)

    assert [True, False] == [silent.connection.died_unanswered, spoke.connection.died_unanswered]
    with pytest.raises(ReplyBroken, match="connection closed before status and headers"):
        await silent.connection.first_byte()
