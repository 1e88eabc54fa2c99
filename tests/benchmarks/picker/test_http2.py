import asyncio
from typing import Any, cast

from benchmarks.picker.http2 import (
    DATA,
    END_STREAM,
    GO_AWAY,
    HEADERS,
    PING,
    SETTINGS,
    WINDOW_UPDATE,
    Connection,
    frame,
    header_block,
)


class Wire:
    """Transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.is_closed = True


def connected() -> tuple[Connection, Wire]:
    connection, wire = Connection("127.0.0.1:9002", "/Service/Method"), Wire()
    connection.connection_made(cast("asyncio.Transport", wire))
    wire.written.clear()
    return connection, wire


def test_the_headers_of_a_call_are_plain_texts() -> None:
    assert b"\x83\x86\x04\x04/S/M\x01\x01h\x0f\x10\x10application/grpc\x00\x02te\x08trailers" == header_block(
        "h", "/S/M"
    )


def test_a_message_has_its_length_before_it() -> None:
    connection, wire = connected()
    call = connection.call(print, print)
    call.send(b"abc")
    call.end()

    assert [frame(DATA, 0, 1, b"\0\0\0\0\3abc"), frame(DATA, END_STREAM, 1, b"")] == wire.written[1:]


def test_data_waits_for_room_in_the_window_of_the_call() -> None:
    """65,535 bytes go out at once, in frames of at most 16,384 bytes, and the rest when the server gives room."""
    connection, wire = connected()
    call = connection.call(print, print)
    call.send(b"x" * 70_000)
    before = [len(each) - 9 for each in wire.written[1:]]
    connection.data_received(frame(WINDOW_UPDATE, 0, 0, (100_000).to_bytes(4)))
    assert before == [len(each) - 9 for each in wire.written[1:]]
    connection.data_received(frame(WINDOW_UPDATE, 0, 1, (100_000).to_bytes(4)))

    assert [16_384, 16_384, 16_384, 16_383] == before
    assert 70_005 == sum(len(each) - 9 for each in wire.written[1:])


def test_settings_change_the_room_of_running_calls() -> None:
    connection, wire = connected()
    call = connection.call(print, print)
    connection.data_received(frame(SETTINGS, 0, 0, (4).to_bytes(2) + (10).to_bytes(4)))
    call.send(b"x" * 20)

    assert [frame(SETTINGS, 1, 0, b""), frame(DATA, 0, 1, b"\0\0\0\0\x14" + b"x" * 5)] == wire.written[1:]


def test_messages_of_the_server_arrive_in_any_pieces() -> None:
    connection, _ = connected()
    got: list[bytes] = []
    ends: list[bool] = []
    connection.call(got.append, lambda: ends.append(True))
    data = frame(HEADERS, 4, 1, b"head") + frame(DATA, 0, 1, b"\0\0\0\0\2ab\0\0\0\0\1c") + frame(HEADERS, 5, 1, b"end")
    for at in range(len(data)):
        connection.data_received(data[at : at + 1])

    assert ([b"ab", b"c"], [True]) == (got, ends)


def test_pings_are_answered() -> None:
    connection, wire = connected()
    connection.data_received(frame(PING, 0, 0, b"12345678") + frame(PING, 1, 0, b"12345678"))

    assert [frame(PING, 1, 0, b"12345678")] == wire.written


def test_a_connection_that_ends_ends_its_calls() -> None:
    connection, wire = connected()
    ends: list[Any] = []
    connection.call(print, lambda: ends.append(True))
    connection.data_received(frame(GO_AWAY, 0, 0, bytes(8)))
    assert wire.is_closed
    connection.connection_lost(None)

    assert [True] == ends
