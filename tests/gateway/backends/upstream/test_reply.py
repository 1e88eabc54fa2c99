import asyncio

import pytest

from gateway.backends.upstream.connection import UpstreamConnection
from gateway.backends.upstream.engine_progress import EngineProgress
from gateway.backends.upstream.reply import HttpReply
from gateway.backends.upstream.response_parser import ResponseLimits
from gateway.protocol.errors import ReplyBroken, UpstreamTimeout
from tests.gateway.backends.upstream.test_connection import OK, Line


async def reply_to(line: Line) -> tuple[HttpReply, list[UpstreamConnection]]:
    given_back: list[UpstreamConnection] = []
    await line.connection.first_byte()
    return HttpReply(line.connection, given_back.append, lambda: 0.0), given_back


async def test_a_complete_answer_needs_one_read() -> None:
    """After the only read the reply has ended; another read finds nothing more."""
    line = Line()
    line.come(OK + b"hello")
    reply, _ = await reply_to(line)

    assert (200, False) == (reply.status, reply.ended)
    assert b"hello" == await reply.read()
    assert reply.ended
    assert b"" == await reply.read()


async def test_a_read_wakes_up_with_the_next_piece() -> None:
    """A read that found nothing gets what the next packet brings."""
    line = Line()
    line.come(OK)
    reply, _ = await reply_to(line)
    reading = asyncio.get_running_loop().create_task(reply.read())
    await asyncio.sleep(0)
    line.come(b"hel")

    assert b"hel" == await reading
    assert not reply.ended


async def test_closing_gives_the_connection_back_once() -> None:
    """A second close does nothing, and what the reply said about its end stays."""
    line = Line()
    line.come(OK + b"hello")
    reply, given_back = await reply_to(line)
    await reply.read()
    await reply.aclose()
    await reply.aclose()

    assert [line.connection] == given_back
    assert reply.ended
    assert b"" == await reply.read()


async def test_a_reply_closed_early_cannot_be_read() -> None:
    """It says so instead of passing for complete."""
    line = Line()
    line.come(OK + b"hel")
    reply, _ = await reply_to(line)
    await reply.aclose()

    assert not reply.ended
    with pytest.raises(ReplyBroken, match="closed before it was complete"):
        await reply.read()


async def test_a_slow_reader_bounds_what_is_held() -> None:
    """Above the high-water mark the socket is left alone until the next read."""
    line = Line(limits=ResponseLimits(high_water_bytes=4))
    line.come(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nabcde")
    reply, _ = await reply_to(line)

    assert line.transport.is_paused
    assert b"abcde" == await reply.read()
    assert not line.transport.is_paused


async def waiting_for(reply: HttpReply) -> "asyncio.Task[bytes]":
    reading = asyncio.get_running_loop().create_task(reply.read())
    await asyncio.sleep(0)
    return reading


async def begun(*, idle_s: float = 5.0) -> tuple[Line, HttpReply, list[float]]:
    """A stream of which the first piece has been read; the list holds the time."""
    line, now = Line(streams=True), [1.0]
    line.come(OK + b"h")
    await line.connection.first_byte()
    reply = HttpReply(line.connection, lambda _: None, lambda: now[0], idle_s=idle_s)
    await reply.read()
    return line, reply, now


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_shorter_pause_may_be_asked_for(*, is_waiting: bool) -> None:
    """From the next wait on, and for the one under way, since it began."""
    line, reply, now = await begun()
    if is_waiting:
        reading = await waiting_for(reply)
        now[0] = 2.0
        reply.expect_within(1.5)
    else:
        reply.expect_within(1.5)
        reading = await waiting_for(reply)
    line.connection.expire(2.4)
    line.come(b"e")

    assert b"e" == await reading

    now[0] = 10.0
    reading = await waiting_for(reply)
    line.connection.expire(11.5)
    with pytest.raises(UpstreamTimeout) as timeout:
        await reading

    assert "idle" == timeout.value.phase


async def test_a_pause_that_all_streams_of_a_worker_make_is_not_a_stall() -> None:
    """The machine is busy, or the engine has a long prompt to read; ten times as long is too long all the same."""
    line, reply, _ = await begun(idle_s=60.0)
    reply.expect_within(1.0)
    reading = await waiting_for(reply)
    line.connection.compare(0, others=3, others_arrivals=0)
    line.connection.expire(10.9)
    await asyncio.sleep(0)
    assert not reading.done()

    line.connection.expire(11.1)
    with pytest.raises(UpstreamTimeout):
        await reading


async def test_a_stream_that_pauses_while_the_others_go_on_is_stalled() -> None:
    """Each of them had ten pieces since; nine may be the luck of the schedule."""
    line, reply, _ = await begun(idle_s=60.0)
    reply.expect_within(1.0)
    reading = await waiting_for(reply)
    line.connection.compare(0, others=3, others_arrivals=27)
    line.connection.expire(2.1)
    await asyncio.sleep(0)
    assert not reading.done()

    line.connection.compare(0, others=3, others_arrivals=3)
    line.connection.expire(2.2)
    with pytest.raises(UpstreamTimeout):
        await reading


async def test_what_others_had_before_the_last_piece_does_not_count() -> None:
    """A pause begins again with every piece."""
    line, reply, _ = await begun(idle_s=60.0)
    reply.expect_within(1.0)
    reading = await waiting_for(reply)
    line.connection.compare(0, others=1, others_arrivals=9)
    line.connection.compare(1, others=1, others_arrivals=9)
    line.connection.compare(0, others=1, others_arrivals=9)
    line.connection.expire(2.1)
    await asyncio.sleep(0)

    assert not reading.done()
    line.come(b"e")
    assert b"e" == await reading


async def test_the_time_in_which_the_gateway_itself_stood_is_not_a_pause() -> None:
    """What came meanwhile has not been read; a pause of the worker's own patience is one a caller that stood."""
    line, reply, _ = await begun(idle_s=60.0)
    reply.expect_within(1.0)
    reading = await waiting_for(reply)
    line.connection.forgive(5.0)
    line.connection.expire(6.9)
    await asyncio.sleep(0)
    assert not reading.done()

    line.connection.expire(7.0)
    with pytest.raises(UpstreamTimeout):
        await reading


Reading = tuple[float, float, float]
"""Tokens, when it was asked for, and when it came."""
WORKS: list[Reading] = [(10, 1.2, 1.3), (14, 1.6, 1.7)]


@pytest.mark.parametrize(
    ("readings", "cut_at"),
    [
        pytest.param([], 2.0, id="nobody could read the engine"),
        pytest.param([(10, 1.2, 1.3)], 2.0, id="the second reading is late"),
        pytest.param([(10, 0.9, 1.1), (14, 1.6, 1.7)], 2.0, id="the first may be older than the pause"),
        pytest.param([(10, 1.2, 1.3), (10, 1.6, 1.7)], 2.0, id="the engine is stuck"),
        pytest.param(WORKS, 2.7, id="it generated, and was not seen to any more"),
        pytest.param([*WORKS, (14, 2.0, 2.1), (14, 2.4, 2.5)], 2.7, id="it generated, and is stuck now"),
        pytest.param([*WORKS, (20, 2.3, 2.4), (29, 3.0, 3.1)], 4.1, id="it goes on"),
        pytest.param([*WORKS, *((20 + i, 2 + i, 2.1 + i) for i in range(20))], 11.0, id="for others, it seems"),
    ],
)
async def test_a_stream_that_is_alone_waits_for_an_engine_that_generates(
    readings: list[Reading], cut_at: float
) -> None:
    """Its tokens may be held back. Silent since 1.0, it may pause for 1 s after the engine was last seen at work.

    Ten such pauses are too long all the same.
    """
    line, reply, _ = await begun(idle_s=60.0)
    reply.expect_within(1.0)
    reading = await waiting_for(reply)
    engine = EngineProgress(lambda: None)
    left = list(readings)
    for hundredth in range(100, 1200, 5):
        now = hundredth / 100
        while left and left[0][2] <= now:
            tokens, asked_at, read_at = left.pop(0)
            engine.note(tokens, asked_at=asked_at, read_at=read_at)
        line.connection.inquire(engine, now)
        line.connection.expire(now)
        if line.connection.failure is not None:
            break

    assert cut_at == pytest.approx(now, abs=0.01)
    with pytest.raises(UpstreamTimeout):
        await reading


async def test_an_engine_that_generates_for_the_others_does_not_excuse_a_stream() -> None:
    """While they go on, its tokens are theirs."""
    line, reply, _ = await begun(idle_s=60.0)
    reply.expect_within(1.0)
    reading = await waiting_for(reply)
    asked: list[str] = []
    engine = EngineProgress(lambda: asked.append("asked"))
    for tokens, asked_at, read_at in WORKS:
        engine.note(tokens, asked_at=asked_at, read_at=read_at)
    line.connection.compare(0, others=1, others_arrivals=10)
    line.connection.inquire(engine, 2.1)
    line.connection.expire(2.1)

    assert [] == asked
    with pytest.raises(UpstreamTimeout):
        await reading


@pytest.mark.parametrize(
    ("pause_s", "at", "asked"),
    [
        pytest.param(1.0, 1.19, [], id="too early"),
        pytest.param(1.0, 1.21, [1.21], id="a fifth of its time"),
        pytest.param(4.0, 1.7, [], id="too early for a slow stream"),
        pytest.param(4.0, 1.9, [1.9], id="a fifth of that"),
        pytest.param(60.0, 59.0, [], id="the worker's own patience"),
    ],
)
async def test_an_engine_is_read_during_a_pause_that_is_long_for_its_stream(
    pause_s: float, at: float, asked: list[float]
) -> None:
    """A stream that flows, or that has all the time of its worker, needs no reading."""
    line, reply, _ = await begun(idle_s=60.0)
    reply.expect_within(pause_s)
    read: list[float] = []
    engine = EngineProgress(lambda: read.append(at))
    engine.note(10.0, asked_at=0.0, read_at=0.1)
    line.connection.inquire(engine, at)
    assert [] == read

    reading = await waiting_for(reply)
    line.connection.inquire(engine, at)
    line.come(b"e")

    assert asked == read
    assert b"e" == await reading


async def test_no_pause_is_longer_than_the_workers_own_timeout() -> None:
    """Whatever is asked for; and it can be made longer again up to that."""
    line, reply, _ = await begun(idle_s=5.0)
    reply.expect_within(1.0)
    reply.expect_within(60.0)
    reading = await waiting_for(reply)
    line.connection.expire(5.9)
    assert not reading.done()
    line.connection.expire(6.0)

    with pytest.raises(UpstreamTimeout):
        await reading


async def test_an_interrupted_read_raises_what_it_was_reported() -> None:
    """At once; and the worker sees the connection go, which is how it learns to stop."""
    line, reply, _ = await begun()
    reading = await waiting_for(reply)
    error = ReplyBroken("w1 is draining")
    reply.interrupt(error)

    with pytest.raises(ReplyBroken) as raised:
        await reading
    assert error is raised.value
    assert line.transport.is_aborted


@pytest.mark.parametrize("rest", [b"el", b"ello"])
async def test_an_interruption_comes_before_what_has_not_been_read(rest: bytes) -> None:
    """Also where that is the end: the next read raises, and nothing passes for complete."""
    line, reply, _ = await begun()
    line.come(rest)
    error = ReplyBroken("w1 is draining")
    reply.interrupt(error)

    assert not reply.ended
    with pytest.raises(ReplyBroken) as raised:
        await reply.read()
    assert error is raised.value
    assert not line.connection.is_reusable()


async def test_nothing_interrupts_what_is_over() -> None:
    """A complete answer stays complete, and a closed one stays closed; both may still be reported anything."""
    line, reply, _ = await begun()
    line.come(b"ello")
    await reply.read()
    reply.interrupt(ReplyBroken("w1 is draining"))

    assert (True, True) == (reply.ended, line.connection.is_reusable())

    await reply.aclose()
    reply.interrupt(ReplyBroken("w1 is draining"))
    reply.expect_within(1.0)

    assert reply.ended
