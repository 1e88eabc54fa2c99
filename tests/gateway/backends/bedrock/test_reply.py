from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.backends.bedrock.errors import Fault
from gateway.backends.bedrock.reply import ChunkSource, StreamReply, WholeReply
from gateway.backends.bedrock.stream import ChunkWriter
from gateway.errors import ReplyBroken
from tests.fakes.bedrock import MESSAGE_START, Says, event, exception, text_delta


def source(*pieces: bytes) -> ChunkSource:
    """A source whose network reads give *pieces*."""

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    writer = ChunkWriter(
        completion_id="chatcmpl-1", created=1, model="tiny", includes_usage=False, reasoning_field="reasoning"
    )
    return ChunkSource(httpx.Response(200, content=body()), writer=writer, metadata_s=2.0)


async def drain(chunks: ChunkSource) -> bytes:
    data = b""
    while piece := await chunks.next(idle_s=None):
        assert not isinstance(piece, Fault)
        data += piece
    return data


async def test_a_whole_reply_is_read_once() -> None:
    """Body, then nothing; the length is in the headers."""
    reply = WholeReply(status=429, headers=[(b"retry-after", b"2")], body=b"{}")

    before = reply.ended
    read = [await reply.read() for _ in range(3)]

    assert [b"{}", b"", b""] == read
    assert (False, True) == (before, reply.ended)
    assert [(b"retry-after", b"2"), (b"content-type", b"application/json"), (b"content-length", b"2")] == reply.headers
    await reply.aclose()


@pytest.mark.parametrize("piece_bytes", [1, 3, 50, 10_000])
async def test_pieces_of_any_size_make_the_same_stream(piece_bytes: int) -> None:
    """How the network cuts the bytes, down to single ones, does not show in what the caller reads."""
    data = b"".join(Says(("Grüße", " 世界"), reasoning="hm", empty_block_first=True).to_frames())
    cut = [data[start : start + piece_bytes] for start in range(0, len(data), piece_bytes)]

    assert await drain(source(data)) == await drain(source(*cut))


async def test_what_came_before_an_exception_is_read_first() -> None:
    """Text and exception in one network read are two pieces."""
    chunks = source(MESSAGE_START + text_delta("Hel") + exception("throttlingException", "slow down"))

    text, fault = [await chunks.next(idle_s=None) for _ in range(2)]

    assert isinstance(text, bytes)
    assert b'"content":"Hel"' in text
    assert isinstance(fault, Fault)
    assert 429 == fault.status


async def test_a_read_after_the_end_gives_nothing() -> None:
    """The end is said once."""
    chunks = source(*Says().to_frames())
    data = await drain(chunks)

    assert data.endswith(b"data: [DONE]\n\n")
    assert 1 == data.count(b"[DONE]")
    assert b"" == await chunks.next(idle_s=None)
    assert chunks.ended


@pytest.mark.parametrize(
    "body",
    [
        MESSAGE_START + text_delta("Hel"),
        MESSAGE_START + text_delta("Hel") + event("messageStop", {"stopReason": "end_turn"})[:-1],
        MESSAGE_START + event("messageStop", {"stopReason": "end_turn"}) + event("metadata", {})[:5],
        b"",
    ],
)
async def test_a_body_that_ends_early_breaks_the_reply(body: bytes) -> None:
    """An end of the body is only an end after ``messageStop`` and on the border of a frame."""
    chunks = source(body)

    with pytest.raises(ReplyBroken):
        await drain(chunks)
    assert not chunks.ended


async def test_a_stream_reply_begins_with_its_first_piece() -> None:
    """The piece that was waited for before the status is handed out first, and is not the end."""
    chunks = source(*Says(("Hello",)).to_frames())
    first = await chunks.next(idle_s=None)
    assert isinstance(first, bytes)
    reply = StreamReply(headers=[], first=first, rest=chunks, idle_s=1.0)

    read = [await reply.read()]
    while not reply.ended:
        read.append(await reply.read())

    assert first == read[0]
    assert read[-1].endswith(b"data: [DONE]\n\n")
    assert b"" == await reply.read()
    await reply.aclose()
    await reply.aclose()
