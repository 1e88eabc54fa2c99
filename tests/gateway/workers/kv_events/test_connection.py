"""One connection, without a network: what it holds, and when it reads no more."""

import asyncio
import struct
from typing import Any

from gateway.workers.kv_events.connection import Link, ZmtpConnection
from gateway.workers.kv_events.zmtp import ReadProgress, ZmtpSession

GREETING = (b"\xff" + bytes(8) + b"\x7f\x03\x00NULL").ljust(64, b"\0")
HANDSHAKE = GREETING + b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"


class Wire(asyncio.Transport):
    """A transport to no one."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_paused = False
        self.is_aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.is_aborted = True


class Holder:
    """An owner that lets in anyone who comes."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self.reasons: list[str] = []

    def opened(self, connection: ZmtpConnection) -> bool:
        return True

    def has_news(self, connection: ZmtpConnection) -> None:
        pass

    def closed(self, connection: ZmtpConnection) -> None:
        pass

    def hold(self, more_bytes: int) -> bool:
        self.held_bytes += more_bytes
        return True

    def refuse(self, connection: ZmtpConnection, reason: str) -> None:
        self.reasons.append(reason)
        connection.abort()


def steps(connection: ZmtpConnection) -> list[object]:
    found: list[object] = []
    while (step := connection.read()) is not ReadProgress.IDLE:
        found.append(step)
    return found


async def test_no_more_is_received_than_it_may_read_ahead() -> None:
    """Until all of it was read."""
    owner, wire = Holder(), Wire()
    connection = ZmtpConnection(owner, ZmtpSession(max_message_bytes=1000), read_ahead_bytes=100)
    connection.connection_made(wire)
    connection.data_received(HANDSHAKE)
    assert [ReadProgress.BUSY, Link.UP] == steps(connection)
    connection.data_received(b"\x00\x01a" * 40)
    assert (True, 120) == (wire.is_paused, owner.held_bytes)

    assert [[b"a"]] * 40 == steps(connection)
    assert (False, 0) == (wire.is_paused, owner.held_bytes)
    connection.connection_lost(None)
    assert [Link.DOWN] == steps(connection)


async def test_a_message_over_a_limit_ends_it_and_is_not_kept() -> None:
    owner, wire = Holder(), Wire()
    connection = ZmtpConnection(owner, ZmtpSession(max_message_bytes=1000))
    connection.connection_made(wire)
    connection.data_received(HANDSHAKE + b"\x02" + struct.pack(">Q", 1001))
    steps(connection)

    assert ["the peer sent a message of more than 1000 bytes"] == owner.reasons
    assert (True, 0) == (wire.is_aborted, owner.held_bytes)
