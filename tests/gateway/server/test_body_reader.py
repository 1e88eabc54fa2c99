import asyncio
from typing import Any, cast

import pytest

from gateway.server.body_reader import BodyReader
from gateway.server.cycle import Cycle
from gateway.server.deadline import ClientDeadline
from gateway.server.head_reader import ParsingStopped
from gateway.server.response_writer import ResponseWriter
from gateway.server.shared_state import ConnectionLimits, DateLine


class PausingTransport(asyncio.Transport):
    """Records whether reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Reading:
    """A body that is being read."""

    def __init__(self, *, expects_continue: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.transport = PausingTransport()
        self.deadline = ClientDeadline(ConnectionLimits(), loop)
        self.reader = BodyReader(self.transport, self.deadline, max_framing_bytes=100)
        self.cycle = Cycle(
            {"method": "POST", "http_version": "1.1"},
            cast("Any", None),
            ResponseWriter(self.transport, DateLine(), loop),
            loop=loop,
            is_persistent=True,
            expects_continue=expects_continue,
        )
        self.reader.start()
        self.reader.cycle = self.cycle


async def test_reading_pauses_above_64_kib_of_unread_body() -> None:
    """A client has no deadline while its bytes are not read."""
    reading = Reading()
    reading.reader.on_body(b"a" * 65_536)
    before = reading.transport.is_paused
    reading.reader.on_body(b"a")
    paused = (reading.transport.is_paused, reading.deadline.due)
    reading.reader.resume()

    assert (False, (True, None), False) == (before, paused, reading.transport.is_paused)
    assert reading.deadline.due is not None
    assert 65_537 == reading.reader.received_bytes == reading.cycle.unread_bytes


async def test_no_more_than_64_kib_of_an_unwanted_body_are_read() -> None:
    """The answer has been sent."""
    reading = Reading()
    reading.cycle.response_complete = True
    reading.reader.on_body(b"a" * 65_536)
    with pytest.raises(ParsingStopped):
        reading.reader.on_body(b"a")

    assert (True, 0) == (reading.reader.is_unwanted, reading.cycle.unread_bytes)


async def test_the_framing_of_chunks_is_bounded() -> None:
    """16 bytes for each byte of the body, beside a constant."""
    reading = Reading()
    results = []
    for size, framing in ((10, 260), (0, 0), (0, 1)):
        reading.reader.start_piece()
        reading.reader.on_body(b"a" * size)
        results.append(reading.reader.end_piece(size + framing))

    assert [True, True, False] == results


async def test_a_client_that_waits_for_the_gateway_has_no_deadline() -> None:
    """It sends its body after ``100 Continue``."""
    reading = Reading(expects_continue=True)
    reading.reader.expect()
    before = reading.deadline.due
    reading.cycle.expects_continue = False
    reading.reader.expect()

    assert before is None
    assert reading.deadline.due is not None


async def test_a_stop_of_reading_leaves_the_deadline() -> None:
    reading = Reading()
    reading.deadline.due = 5.0
    reading.reader.stop()

    assert (True, 5.0) == (reading.transport.is_paused, reading.deadline.due)
