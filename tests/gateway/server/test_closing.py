import asyncio
from collections.abc import Callable
from typing import cast

from gateway.protocol.errors import QueueFull
from gateway.server.asgi import Message, Receive, Send
from gateway.server.body_reader import BodyReader
from gateway.server.closing import Closing
from gateway.server.deadline import ClientDeadline
from gateway.server.request_queue import RequestQueue
from gateway.server.response_writer import ResponseWriter
from gateway.server.shared_state import ConnectionLimits, DateLine


class RecordingTransport(asyncio.Transport):
    """Records what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.has_ended = self.is_closed = self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def write_eof(self) -> None:
        self.has_ended = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_paused = True


class Timers:
    """A loop at 1000 s whose timers run on request."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return 1000.0

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> None:
        self.calls.append((delay_s, callback))

    def run_next(self) -> float:
        delay_s, callback = self.calls.pop(0)
        callback()
        return delay_s


async def nothing(_: Message, __: Receive, ___: Send) -> None:
    pass


class Ended:
    """One connection that comes to its end."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.transport = RecordingTransport()
        loop = cast("asyncio.AbstractEventLoop", self.timers)
        self.deadline = ClientDeadline(ConnectionLimits(keep_alive_s=75), loop)
        self.closing = Closing(
            self.transport,
            reader=BodyReader(self.transport, self.deadline, max_framing_bytes=0),
            queue=RequestQueue(nothing, set(), loop),
            writer=ResponseWriter(self.transport, DateLine(), loop),
            deadline=self.deadline,
            loop=loop,
        )


def test_the_write_side_closes_first() -> None:
    """The connection follows a second later, and a client that does not read is cut off after 75 s."""
    ended = Ended()
    ended.closing.linger()
    state = (ended.transport.has_ended, ended.transport.is_closed, ended.deadline.due, ended.closing.is_over)
    delay_s = ended.timers.run_next()

    assert (True, False, None, True) == state
    assert (1.0, True, 1075.0) == (delay_s, ended.transport.is_closed, ended.deadline.due)


def test_a_fault_is_the_last_answer() -> None:
    ended = Ended()
    ended.closing.answer(QueueFull("full", retry_after_s=2.5))
    head, body = ended.transport.written.split(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nretry-after: 2.5\r\n" in head
    assert b"\r\nconnection: close\r\n" in head
    assert b'"queue_full"' in body
    assert ended.transport.has_ended


def test_no_more_than_16_mib_are_discarded() -> None:
    ended = Ended()
    ended.closing.discard(2**24)
    before = ended.transport.is_paused
    ended.closing.discard(1)

    assert (False, True) == (before, ended.transport.is_paused)


def test_a_stop_closes_an_idle_connection_after_a_moment() -> None:
    """The second check reads what had arrived at the first."""
    ended = Ended()
    ended.closing.stop()
    delays = [ended.timers.run_next(), ended.timers.run_next()]

    assert ([0.5, 0.01], True, True) == (delays, ended.closing.is_stopping, ended.transport.has_ended)


def test_a_closed_connection_is_not_closed_again_by_a_stop() -> None:
    ended = Ended()
    ended.closing.stop()
    ended.closing.close()
    ended.timers.run_next()
    ended.timers.run_next()

    assert (True, False) == (ended.transport.is_closed, ended.transport.has_ended)
