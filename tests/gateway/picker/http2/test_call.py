"""Messages of one call in both directions."""

import asyncio

import pytest

from gateway.picker.http2 import frames
from gateway.picker.http2.call import STREAM_WINDOW
from gateway.picker.http2.hpack import HeaderDecoder
from tests.gateway.picker.http2.peer import Peer, data_frames, message

pytestmark = pytest.mark.asyncio(loop_scope="module")


def status_in(payload: bytes) -> dict[bytes, bytes]:
    return dict(HeaderDecoder().decode(payload))


async def test_messages_arrive_whole_however_they_are_cut() -> None:
    """Each byte of two messages arrives alone, then both arrive in one frame."""
    peer = Peer()
    call = peer.open()
    both = message(b"first") + message(b"")
    for at in range(len(both)):
        peer.send(data_frames(1, both[at : at + 1]))
    peer.send(data_frames(1, both + message(b"x" * 40_000), flags=frames.END_STREAM))

    assert [b"first", b"", b"first", b"", b"x" * 40_000] == call.messages
    assert (["end"], ("10.0.0.9", 5000)) == (call.events, call.call.peer)


async def test_an_answer_has_headers_messages_and_a_status() -> None:
    peer = Peer()
    call = peer.open().call
    call.send([b"a", b"bc"])
    call.finish()
    peer.send(data_frames(1, b"", flags=frames.END_STREAM))
    head, data, trailers, reset = peer.read()

    assert {b":status": b"200", b"content-type": b"application/grpc"} == status_in(head[3])
    assert (frames.DATA, 0, 1, message(b"a") + message(b"bc")) == data
    assert (frames.HEADERS, 5, 1, {b"grpc-status": b"0"}) == (*trailers[:3], status_in(trailers[3]))
    assert (frames.RST_STREAM, 0, 1, bytes(4)) == reset


async def test_an_error_without_messages_is_one_frame() -> None:
    """The client has ended its messages, so its stream needs no reset."""
    peer = Peer()
    call = peer.open(flags=frames.END_HEADERS | frames.END_STREAM).call
    call.finish(5, "unknown service")
    call.finish(13, "once")
    [(kind, flags, _, payload)] = peer.read()

    assert (frames.HEADERS, 5) == (kind, flags)
    assert (b"200", b"5", b"unknown service") == tuple(
        status_in(payload)[name] for name in (b":status", b"grpc-status", b"grpc-message")
    )


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"\x01\x00\x00\x00\x01x", b"12"), (b"\x00\x00\x00\x00\x0b", b"8")],
    ids=["compressed", "large"],
)
async def test_messages_that_are_refused_end_the_call(sent: bytes, status: bytes) -> None:
    peer = Peer(max_message_bytes=10)
    call = peer.open()
    peer.send(data_frames(1, sent))
    peer.send(data_frames(1, message(b"late")))

    assert ([], status) == (call.messages, status_in(peer.read()[0][3])[b"grpc-status"])


async def test_a_message_may_be_larger_than_the_window() -> None:
    """The window grows as long as the message is incomplete."""
    peer = Peer()
    call = peer.open()
    peer.send(data_frames(1, message(b"x" * (STREAM_WINDOW - 5))))
    grown = [int.from_bytes(payload, "big") for kind, _, stream, payload in peer.read() if (kind, stream) == (8, 1)]

    assert STREAM_WINDOW // 2 <= sum(grown)
    peer.send(data_frames(1, message(b"y" * (sum(grown) - 5))))
    assert [STREAM_WINDOW - 5, sum(grown) - 5] == [len(each) for each in call.messages]


async def test_the_client_waits_while_the_handler_is_full() -> None:
    peer = Peer()
    call = peer.open()
    call.is_full = True
    peer.send(data_frames(1, message(b"x" * (STREAM_WINDOW - 5))))
    before = [frame for frame in peer.read() if frame[2] == 1]
    call.is_full = False
    call.call.resume()
    after = peer.read()

    assert [] == before
    assert [(frames.WINDOW_UPDATE, 0, 1, STREAM_WINDOW.to_bytes(4, "big"))] == after


async def test_a_client_that_ignores_its_window_loses_the_connection() -> None:
    peer = Peer()
    peer.open().is_full = True
    peer.send(data_frames(1, message(b"x" * STREAM_WINDOW)))

    assert frames.FLOW_CONTROL_ERROR == peer.reason()


async def test_the_gateway_waits_while_the_client_takes_nothing() -> None:
    """Until the client permits more, or has gone. Then the rest and the status follow."""
    for ends in (False, True):
        peer = Peer()
        call = peer.open().call
        call.send([b"x" * 600_000])
        waiting = asyncio.ensure_future(call.drain())
        call.finish()
        await asyncio.sleep(0)
        sent = sum(len(payload) for kind, _, _, payload in peer.read() if kind == frames.DATA)
        assert (65_535, False) == (sent, waiting.done())
        if ends:
            peer.send(frames.rst_stream(1, frames.CANCEL))
        else:
            peer.send(frames.window_update(0, 2**20), frames.window_update(1, 2**20))
        await asyncio.wait_for(waiting, 60)
        rest = peer.read()

        assert (0 if ends else 600_005 - 65_535) == sum(len(frame[3]) for frame in rest if frame[0] == frames.DATA)
        assert ([] if ends else [frames.HEADERS, frames.RST_STREAM]) == [frame[0] for frame in rest if frame[0] != 0]
