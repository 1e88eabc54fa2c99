import asyncio

import pytest

from gateway.errors import ReplyBroken, UpstreamTimeout
from gateway.upstream.connection import Connection
from gateway.upstream.limits import Limits
from gateway.upstream.reply import HttpReply
from tests.gateway.upstream.test_connection import OK, Line


async def reply_to(line: Line) -> tuple[HttpReply, list[Connection]]:
    given_back: list[Connection] = []
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
    with pytest.raises(ReplyBroken, match="closed before its end"):
        await reply.read()


async def test_a_slow_reader_bounds_what_is_held() -> None:
    """Above the high-water mark the socket is left alone until the next read."""
    line = Line(limits=Limits(high_water_bytes=4))
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
    """A pause begins anew with every piece."""
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
    """What came meanwhile has not been read; a pause of the worker's own patience is one whoever stood."""
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


async def test_an_interrupted_read_raises_what_it_was_told() -> None:
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
    """A complete answer stays complete, and a closed one stays closed; both may still be told anything."""
    line, reply, _ = await begun()
    line.come(b"ello")
    await reply.read()
    reply.interrupt(ReplyBroken("w1 is draining"))

    assert (True, True) == (reply.ended, line.connection.is_reusable())

    await reply.aclose()
    reply.interrupt(ReplyBroken("w1 is draining"))
    reply.expect_within(1.0)

    assert reply.ended
