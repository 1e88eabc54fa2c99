"""The protocol, byte by byte."""

import pytest

from gateway.workers.kv_events.zmtp import ProtocolError, ReadProgress, ZmtpSession, dealer, subscriber

GREETING = (b"\xff" + bytes(8) + b"\x7f\x03\x01NULL").ljust(64, b"\0")
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"


def ready(*, max_message_bytes: int = 100) -> ZmtpSession:
    """One whose handshake has succeeded."""
    conversation = ZmtpSession(max_message_bytes=max_message_bytes)
    conversation.feed(GREETING + READY)
    assert [ReadProgress.BUSY, ReadProgress.READY, ReadProgress.IDLE] == [conversation.step() for _ in range(3)]
    return conversation


def test_the_handshake_is_that_of_a_subscriber_to_everything() -> None:
    """Greeting, READY, and a subscription to the empty prefix; by ZMTP 3.0."""
    sent = bytes(ready().outgoing)

    assert sent[:64] == (b"\xff" + bytes(8) + b"\x7f\x03\x00NULL").ljust(64, b"\0")
    assert sent[64:] == b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB" + b"\x00\x01\x01"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_message_arrives_in_pieces_of_any_size(size: int) -> None:
    """Short and long frames."""
    conversation = ZmtpSession(max_message_bytes=100)
    stream = GREETING + READY + b"\x01\x05topic" + b"\x03" + (8).to_bytes(8, "big") + b"sequence" + b"\x00\x01x"
    found = []
    for begin in range(0, len(stream), size):
        conversation.feed(stream[begin : begin + size])
        while (step := conversation.step()) is not ReadProgress.IDLE:
            found.append(step)

    assert [b"topic", b"sequence", b"x"] == found[-1]
    assert 0 == conversation.held_bytes


def test_a_limit_counts_all_parts_of_a_message() -> None:
    """It begins again with the next message."""
    conversation = ready()
    conversation.feed(b"\x01\x32" + bytes(50) + b"\x00\x32" + bytes(50))
    assert ReadProgress.BUSY is conversation.step()
    assert [bytes(50), bytes(50)] == conversation.step()
    conversation.feed(b"\x01\x32" + bytes(50) + b"\x00\x33")
    assert ReadProgress.BUSY is conversation.step()
    with pytest.raises(ProtocolError, match="more than 100 bytes"):
        conversation.step()


def test_the_socket_type_may_follow_other_properties() -> None:
    """One is libzmq's Identity; names are compared without case."""
    conversation = ZmtpSession(max_message_bytes=100)
    body = b"\x05READY" + b"\x08Identity\x00\x00\x00\x00" + b"\x0bsocket-type\x00\x00\x00\x04XPUB"
    conversation.feed(GREETING + bytes([4, len(body)]) + body)

    assert [ReadProgress.BUSY, ReadProgress.READY] == [conversation.step() for _ in range(2)]


def test_what_was_received_can_be_dropped() -> None:
    conversation = ready()
    conversation.feed(b"\x01\x01a\x01\x01")
    conversation.step()
    assert 3 == conversation.held_bytes
    conversation.clear()

    assert 0 == conversation.held_bytes


def test_a_subscriber_may_name_a_topic() -> None:
    """Short or long."""
    assert b"\x00\x04\x01kv@" == subscriber(b"kv@").first
    assert b"\x02" + (301).to_bytes(8, "big") + b"\x01" + b"x" * 300 == subscriber(b"x" * 300).first


def test_a_dealer_asks_when_it_was_heard() -> None:
    """A router; the parts of its question follow the handshake."""
    conversation = ZmtpSession(max_message_bytes=100, role=dealer([b"", b"abc"]))
    body = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"
    conversation.feed(GREETING + bytes([4, len(body)]) + body)
    assert [ReadProgress.BUSY, ReadProgress.READY] == [conversation.step() for _ in range(2)]

    assert bytes(conversation.outgoing).endswith(b"\x00\x00\x00\x06DEALER" + b"\x01\x00" + b"\x00\x03abc")
    other = ZmtpSession(max_message_bytes=100, role=dealer([b""]))
    other.feed(GREETING + READY)
    other.step()
    with pytest.raises(ProtocolError, match="is not a ROUTER socket"):
        other.step()
