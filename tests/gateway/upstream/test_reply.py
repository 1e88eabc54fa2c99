import asyncio

import pytest

from gateway.errors import ReplyBroken
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
