"""HTTP/2 as a server of gRPC needs it, and clients that break the protocol."""

import asyncio
import random

import pytest

from gateway.picker.http2 import frames
from gateway.picker.http2.connection import MAX_CALLS
from gateway.picker.http2.hpack import encoded
from tests.gateway.picker.http2.peer import ASKED, ENDS, Peer, data_frames, message

pytestmark = pytest.mark.asyncio(loop_scope="module")

BLOCK = encoded(ASKED)


def headers(stream: int, flags: int = frames.END_HEADERS, block: bytes = BLOCK) -> bytes:
    return frames.frame(frames.HEADERS, flags, stream, block)


async def test_a_connection_begins_with_settings() -> None:
    peer = Peer(greets=False)
    peer.send(frames.PREFACE[:5])
    peer.send(frames.PREFACE[5:], frames.settings({frames.HEADER_TABLE_SIZE: 0}))
    kinds = [(kind, flags) for kind, flags, _, _ in peer.read()]

    assert [(frames.SETTINGS, 0), (frames.WINDOW_UPDATE, 0), (frames.SETTINGS, frames.ACK)] == kinds


async def test_pings_are_answered() -> None:
    peer = Peer()
    peer.send(frames.frame(frames.PING, 0, 0, b"12345678"), frames.frame(frames.PING, frames.ACK, 0, b"12345678"))

    assert [(frames.PING, frames.ACK, 0, b"12345678")] == peer.read()


async def test_calls_share_a_connection() -> None:
    """Frames of both arrive in any order, with paddings, priorities, trailers and frames that are not known."""
    peer = Peer()
    first, second = peer.open(1, path=b"/a"), peer.open(3, path=b"/b")
    peer.send(
        data_frames(3, message(b"b")),
        frames.frame(frames.DATA, frames.PADDED, 1, b"\x03" + message(b"a") + b"xxx"),
        frames.frame(frames.PRIORITY, 0, 3, bytes(5)),
        frames.frame(0xBE, 0xFF, 3, b"unknown"),
        headers(1, ENDS, encoded([(b"trailer", b"1")])),
        frames.frame(frames.HEADERS, ENDS | frames.PADDED | frames.HAS_PRIORITY, 5, b"\x01" + bytes(5) + BLOCK + b"x"),
    )

    assert ([b"a"], [b"b"]) == (first.messages, second.messages)
    assert (["end"], [], ["end"]) == (first.events, second.events, peer.calls[2].events)
    assert [(b":path", b"/a"), (b":path", b"/b"), (b":path", b"/a")] == [call.headers[1] for call in peer.calls]


async def test_headers_may_be_continued() -> None:
    peer = Peer()
    peer.send(
        headers(1, 0, BLOCK[:3]),
        frames.frame(frames.CONTINUATION, 0, 1, BLOCK[3:7]),
        frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, BLOCK[7:]),
    )

    assert [ASKED] == [call.headers for call in peer.calls]


async def test_a_call_that_the_client_ends_is_lost_once() -> None:
    """Frames that the client had already sent are ignored."""
    peer = Peer()
    call = peer.open()
    peer.send(frames.rst_stream(1, frames.CANCEL), frames.rst_stream(1, frames.CANCEL))
    peer.send(data_frames(1, message(b"late")), headers(1, ENDS), frames.window_update(1, 10))
    call.call.send([b"nothing"])
    call.call.finish()

    assert (["lost"], [], []) == (call.events, call.messages, peer.read())


async def test_the_end_of_the_connection_ends_all_calls() -> None:
    peer = Peer()
    calls = [peer.open(1), peer.open(3)]
    calls[0].call.finish()
    peer.connection.connection_lost(None)

    assert ([], ["lost"], []) == (calls[0].events, calls[1].events, list(peer.connections))


async def test_an_unknown_path_is_answered() -> None:
    peer = Peer()
    peer.send(headers(1, ENDS, encoded([(b":path", b"/none")])))

    assert ([], [frames.HEADERS, frames.RST_STREAM]) == (peer.calls, [frame[0] for frame in peer.read()])


async def test_a_connection_has_a_limited_number_of_calls() -> None:
    peer = Peer()
    for number in range(MAX_CALLS + 1):
        peer.send(headers(2 * number + 1))

    assert MAX_CALLS == len(peer.calls)
    assert [(frames.RST_STREAM, 0, 2 * MAX_CALLS + 1, b"\0\0\0\x07")] == peer.read()


async def test_windows_of_the_client_are_kept() -> None:
    """The window of the connection holds up both calls. Each gets the rest when the client permits it."""
    peer = Peer()
    peer.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 50_000, frames.MAX_FRAME_SIZE: 20_000}))
    first, second = peer.open(1).call, peer.open(3).call
    peer.read()
    for call in (first, second):
        call.send([b"x" * 40_000])
    sizes = [(stream, len(payload)) for kind, _, stream, payload in peer.read() if kind == frames.DATA]
    peer.send(frames.window_update(0, 100_000))
    later = [(stream, len(payload)) for kind, _, stream, payload in peer.read()]
    first.send([b"y" * 20_000])
    rest = [(stream, len(payload)) for kind, _, stream, payload in peer.read()]
    peer.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 70_000}))
    last = [(stream, len(payload)) for kind, _, stream, payload in peer.read() if kind == frames.DATA]

    assert [(1, 20_000), (1, 20_000), (1, 5), (3, 20_000), (3, 5_530)] == sizes
    assert [(3, 14_475)] == later
    assert [(1, 9_995)] == rest
    assert [(1, 10_010)] == last


async def test_the_window_of_the_connection_stays_open() -> None:
    peer = Peer()
    for stream in range(1, 21, 2):
        peer.open(stream)
        peer.send(data_frames(stream, message(b"x" * 1_000_000)))
    grown = [int.from_bytes(payload, "big") for kind, _, stream, payload in peer.read() if (kind, stream) == (8, 0)]

    assert 2**23 <= sum(grown) <= 10_000_050


async def test_nothing_is_read_from_a_client_that_reads_nothing() -> None:
    peer = Peer()
    call = peer.open().call
    peer.connection.pause_writing()
    waiting = asyncio.ensure_future(call.drain())
    await asyncio.sleep(0)
    before = waiting.done(), peer.transport.is_reading_
    peer.connection.resume_writing()
    await asyncio.wait_for(waiting, 60)

    assert ((False, False), True) == (before, peer.transport.is_reading_)


async def test_a_server_that_stops_lets_calls_complete() -> None:
    """The client learns that it has to use another connection. Calls that it has already sent are served."""
    peer = Peer()
    call = peer.open().call
    peer.connection.close_soon()
    assert [(frames.GOAWAY, 0, 0, b"\x7f\xff\xff\xff\0\0\0\0")] == peer.read()
    late = peer.open(3).call
    for each in (call, late):
        each.finish()
    *_, last = peer.read()

    assert (True, (frames.GOAWAY, 0, 0, b"\0\0\0\x03\0\0\0\0")) == (peer.transport.is_closed, last)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frames.frame(frames.DATA, 0, 0, b""), frames.PROTOCOL_ERROR),
        (frames.frame(frames.DATA, 0, 7, b""), frames.PROTOCOL_ERROR),
        (headers(2), frames.PROTOCOL_ERROR),
        (headers(1, frames.END_HEADERS, b"\x80"), frames.COMPRESSION_ERROR),
        (frames.frame(frames.HEADERS, frames.HAS_PRIORITY, 1, b"1234"), frames.FRAME_SIZE_ERROR),
        (headers(1, 0) + frames.frame(frames.PING, 0, 0, bytes(8)), frames.PROTOCOL_ERROR),
        (headers(1, 0) + frames.frame(frames.CONTINUATION, 4, 3, b""), frames.PROTOCOL_ERROR),
        (headers(1, 0) + frames.frame(frames.CONTINUATION, 0, 1, b""), frames.ENHANCE_YOUR_CALM),
        (headers(1, 0) + frames.frame(frames.CONTINUATION, 0, 1, b"x" * 16_384) * 5, frames.ENHANCE_YOUR_CALM),
        (frames.frame(frames.CONTINUATION, 4, 1, b""), frames.PROTOCOL_ERROR),
        (frames.frame(frames.PUSH_PROMISE, 4, 1, b""), frames.PROTOCOL_ERROR),
        (frames.frame(frames.PING, 0, 0, b"1"), frames.FRAME_SIZE_ERROR),
        (frames.frame(frames.SETTINGS, 0, 0, b"12345"), frames.FRAME_SIZE_ERROR),
        (frames.settings({frames.INITIAL_WINDOW_SIZE: 2**31}), frames.FLOW_CONTROL_ERROR),
        (frames.settings({frames.MAX_FRAME_SIZE: 100}), frames.PROTOCOL_ERROR),
        (frames.rst_stream(9, 0), frames.PROTOCOL_ERROR),
        (frames.frame(frames.RST_STREAM, 0, 1, b""), frames.FRAME_SIZE_ERROR),
        (frames.window_update(0, 0), frames.PROTOCOL_ERROR),
        (frames.window_update(0, frames.MAX_WINDOW), frames.FLOW_CONTROL_ERROR),
        (headers(1) + frames.window_update(1, frames.MAX_WINDOW), frames.FLOW_CONTROL_ERROR),
        (frames.frame_head(20_000, frames.DATA, 0, 1), frames.FRAME_SIZE_ERROR),
    ],
)
async def test_a_client_that_breaks_the_protocol_loses_its_connection(sent: bytes, code: int) -> None:
    peer = Peer()
    peer.send(sent)
    assert code == peer.reason()
    peer.send(frames.frame(frames.PING, 0, 0, bytes(8)))
    assert [] == peer.read()


async def test_other_protocols_are_refused() -> None:
    peer = Peer(greets=False)
    peer.send(b"GET / HTTP/1.1\r\n\r\n")

    assert frames.PROTOCOL_ERROR == peer.reason()


async def test_any_bytes_are_answered_or_refused() -> None:
    """Frames with random contents, cut at random places, raise no other errors."""
    for seed in range(300):
        chance = random.Random(seed)
        peer = Peer()
        sent = b"".join(
            frames.frame(
                chance.randrange(10), chance.randrange(256), chance.randrange(6), chance.randbytes(chance.randrange(12))
            )
            for _ in range(chance.randrange(1, 12))
        )
        sent = headers(1) + sent
        while sent:
            cut = chance.randrange(1, 30)
            peer.send(sent[:cut])
            sent = sent[cut:]
        peer.connection.connection_lost(None)

        assert [] == list(peer.connections)
