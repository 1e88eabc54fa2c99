"""Comments in silent streams. Here silence lasts 15 ms, so that a sweep comes every millisecond."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.proxy.downstream import Downstream
from gateway.proxy.keep_alive import SWEEPS, KeepAlive
from tests.gateway.asgi import Caller, Message
from tests.gateway.examples import an_exchange

COMMENT = b": keep-alive\n\n"
SILENCE_S = 0.015


class Listener(Caller):
    """Records when the last message came, by the loop's clock; reads none after `stop_reading`."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self.waits = asyncio.Event()
        self._reads = asyncio.Event()
        self._reads.set()

    def stop_reading(self) -> None:
        self._reads.clear()

    def read_on(self) -> None:
        self._reads.set()

    async def send(self, message: Message) -> None:
        if not self._reads.is_set():
            self.waits.set()
            await self._reads.wait()
        await super().send(message)
        self.at = asyncio.get_running_loop().time()

    @property
    def comments(self) -> int:
        return self.body.count(COMMENT)

    def downstream(self) -> Downstream:
        return Downstream(self.send, an_exchange(), ENDPOINTS["/v1/chat/completions"])


@asynccontextmanager
async def sweeping(keep_alive: KeepAlive) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        sweeps = tasks.create_task(keep_alive.run())
        yield
        sweeps.cancel()


async def until(caller: Listener, comments: int) -> None:
    async with asyncio.timeout(60):
        while caller.comments < comments:
            await asyncio.sleep(0.001)


async def test_a_silent_stream_gets_comments() -> None:
    """The first one begins the response; they go on during the silence."""
    caller, keep_alive = Listener(), KeepAlive(silence_s=SILENCE_S)
    keep_alive.begin(caller.downstream())
    async with sweeping(keep_alive):
        await until(caller, comments=3)

    assert 200 == caller.status


async def test_no_comment_comes_before_the_silence_is_over() -> None:
    """This holds after the beginning and after each byte."""
    caller, keep_alive = Listener(), KeepAlive(silence_s=SILENCE_S)
    downstream = caller.downstream()
    begun = asyncio.get_running_loop().time()
    keep_alive.begin(downstream)
    async with sweeping(keep_alive):
        await until(caller, comments=1)
        first = caller.at
        await downstream.write(b"data: 1\n\n")
        written = caller.at
        await until(caller, comments=2)

    assert first - begun >= SILENCE_S
    assert caller.at - written >= SILENCE_S * (1 - 1 / SWEEPS)


async def test_a_stream_that_is_written_to_gets_none() -> None:
    """Each message breaks the silence."""
    caller, keep_alive = Listener(), KeepAlive(silence_s=SILENCE_S)
    downstream = caller.downstream()
    keep_alive.begin(downstream)
    await downstream.start(200, [])
    for _ in range(3 * SWEEPS):
        await downstream.write(b"x")

        assert [] == keep_alive.overdue()

    assert [] == [late for _ in range(SWEEPS - 1) for late in keep_alive.overdue()]
    assert [downstream] == keep_alive.overdue()


async def test_a_stream_that_ended_gets_none() -> None:
    """A stream that never began gets none either."""
    keep_alive = KeepAlive(silence_s=SILENCE_S)
    downstream = Listener().downstream()
    keep_alive.begin(downstream)
    keep_alive.end(downstream)
    keep_alive.end(Listener().downstream())

    assert [] == [late for _ in range(3 * SWEEPS) for late in keep_alive.overdue()]


async def test_without_a_time_of_silence_there_are_no_comments() -> None:
    """The setting may be null; then there is no sweep."""
    keep_alive = KeepAlive(silence_s=None)
    downstream = Listener().downstream()
    keep_alive.begin(downstream)
    await keep_alive.run()
    keep_alive.end(downstream)


async def test_a_caller_who_does_not_read_gets_one_comment() -> None:
    """Comments do not pile up, and do not block other streams."""
    keep_alive = KeepAlive(silence_s=SILENCE_S)
    stuck, other = Listener(), Listener()
    stuck.stop_reading()
    for caller in (stuck, other):
        keep_alive.begin(caller.downstream())
    async with sweeping(keep_alive):
        await until(other, comments=3)

        assert stuck.waits.is_set()
        assert [] == stuck.messages

        stuck.read_on()
        await until(stuck, comments=1)

        assert 2 == len(stuck.messages)


async def test_the_end_cancels_a_waiting_comment() -> None:
    """Nothing is sent into a response that is over."""
    caller, keep_alive = Listener(), KeepAlive(silence_s=SILENCE_S)
    caller.stop_reading()
    downstream = caller.downstream()
    keep_alive.begin(downstream)
    async with sweeping(keep_alive):
        async with asyncio.timeout(60):
            await caller.waits.wait()
        keep_alive.end(downstream)
        caller.read_on()
        await asyncio.sleep(0.005)

    assert [] == caller.messages
    assert not downstream.started


class Broken(Listener):
    """A connection that does not report that it is closed."""

    async def send(self, message: Message) -> None:
        raise RuntimeError("of the prompt")


async def test_a_broken_connection_does_not_end_the_comments_of_others(caplog: pytest.LogCaptureFixture) -> None:
    """Only the class of its error is logged."""
    keep_alive = KeepAlive(silence_s=SILENCE_S)
    caller = Listener()
    keep_alive.begin(Broken().downstream())
    keep_alive.begin(caller.downstream())
    async with sweeping(keep_alive):
        await until(caller, comments=2)

    assert {"a connection to a caller failed: RuntimeError"} == {record.getMessage() for record in caplog.records}
    assert {logging.WARNING} == {record.levelno for record in caplog.records}
