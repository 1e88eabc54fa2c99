import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.backends.bedrock.converse_wire import ConverseTranslator
from gateway.backends.bedrock.errors import BedrockFault
from gateway.backends.bedrock.reply import ChunkSource, StreamReply, WholeReply
from gateway.backends.bedrock.stream import ChunkWriter
from gateway.backends.bedrock.wire import Heading
from gateway.protocol.errors import ReplyBroken, UpstreamError, UpstreamTimeout
from tests.fakes.bedrock import MESSAGE_START, Says, error, event, exception, text_delta

STOP = event("messageStop", {"stopReason": "end_turn"})


def source(*pieces: bytes) -> ChunkSource:
    """A source whose network reads give *pieces*."""

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    translator = ConverseTranslator(ChunkWriter(Heading("chatcmpl-1", 1, "tiny", "reasoning"), includes_usage=False))
    return ChunkSource(httpx.Response(200, content=body()), translator, metadata_s=2.0)


def silent_after(*pieces: bytes) -> ChunkSource:
    """A source whose network says no more than *pieces*, and does not end."""

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        await asyncio.Event().wait()

    translator = ConverseTranslator(ChunkWriter(Heading("chatcmpl-1", 1, "tiny", "reasoning"), includes_usage=False))
    return ChunkSource(httpx.Response(200, content=body()), translator, metadata_s=60.0)


async def begun(chunks: ChunkSource, *, idle_s: float = 60.0) -> StreamReply:
    first = await chunks.next()
    assert isinstance(first, bytes)
    return StreamReply(headers=[], first=first, rest=chunks, idle_s=idle_s)


async def drain(chunks: ChunkSource) -> bytes:
    data = b""
    while piece := await chunks.next():
        assert not isinstance(piece, BedrockFault)
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
    data = b"".join(Says(("Grüße", " 世界"), reasoning="hm", empty_block_first=True).to_frames())
    cut = [data[start : start + piece_bytes] for start in range(0, len(data), piece_bytes)]

    assert await drain(source(data)) == await drain(source(*cut))


async def test_what_came_before_an_exception_is_read_first() -> None:
    """Text and exception in one network read are two pieces."""
    chunks = source(MESSAGE_START + text_delta("Hel") + exception("throttlingException", "slow down"))

    text, fault = [await chunks.next() for _ in range(2)]

    assert isinstance(text, bytes)
    assert b'"content":"Hel"' in text
    assert isinstance(fault, BedrockFault)
    assert 429 == fault.status


async def test_a_read_after_the_end_gives_nothing() -> None:
    """The end is said once."""
    chunks = source(*Says().to_frames())
    data = await drain(chunks)

    assert data.endswith(b"data: [DONE]\n\n")
    assert 1 == data.count(b"[DONE]")
    assert b"" == await chunks.next()
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
    first = await chunks.next()
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


async def test_a_stream_made_of_a_whole_answer_says_so() -> None:
    """Its type is that of a stream; its length may yet change, and is not said."""
    reply = WholeReply(status=200, headers=[], body=b"data: [DONE]\n\n", streams=True)

    assert [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")] == reply.headers


# --- reported from outside


class Stalled(UpstreamError):
    """A stall that the caller's side reports."""


async def test_a_read_under_way_is_interrupted() -> None:
    """It ends with the very error that was given, and so does every later one."""
    reply = await begun(silent_after(MESSAGE_START, text_delta("Hel")))
    await reply.read()
    stalled = Stalled("it stalls")

    reading = asyncio.create_task(reply.read())
    await asyncio.sleep(0)
    reply.interrupt(stalled)
    async with asyncio.timeout(60):
        await asyncio.wait([reading])

    assert stalled is reading.exception()
    with pytest.raises(Stalled):
        await reply.read()
    await reply.aclose()


async def test_the_next_read_is_interrupted() -> None:
    """What has come before is lost, also the first piece; nothing passes for an end."""
    reply = await begun(source(*Says().to_frames()))
    reply.interrupt(Stalled("it stalls"))

    for _ in range(2):
        with pytest.raises(Stalled):
            await reply.read()
    assert not reply.ended


async def test_what_is_between_two_reads_is_interrupted_too() -> None:
    """The source itself looks before each event, not only while it waits."""
    chunks = source(*Says().to_frames())
    await chunks.next()
    chunks.interrupt(Stalled("it stalls"))

    with pytest.raises(Stalled):
        await chunks.next()


async def test_patience_does_not_touch_the_wait_for_the_usage() -> None:
    reply = await begun(silent_after(MESSAGE_START, text_delta("Hel"), STOP))
    await reply.read()
    reading = asyncio.create_task(reply.read())
    await asyncio.sleep(0)
    reply.expect_within(0.0)
    for _ in range(5):
        await asyncio.sleep(0)

    assert not reading.done()
    reply.interrupt(Stalled("it stalls"))
    with pytest.raises(Stalled):
        await reading
    await reply.aclose()


async def test_what_has_ended_is_not_interrupted() -> None:
    """There is no read left to fail."""
    reply = await begun(source(*Says().to_frames()))
    while not reply.ended:
        await reply.read()
    whole = WholeReply(status=200, headers=[], body=b"{}")
    await whole.read()
    for ended in (reply, whole):
        ended.interrupt(Stalled("it stalls"))

        assert b"" == await ended.read()


async def test_a_whole_reply_is_interrupted() -> None:
    reply = WholeReply(status=200, headers=[], body=b"{}")
    reply.expect_within(0.0)
    reply.interrupt(Stalled("it stalls"))

    with pytest.raises(Stalled):
        await reply.read()
    assert not reply.ended


async def test_a_shorter_patience_counts_for_the_read_under_way() -> None:
    """It was begun with a minute."""
    reply = await begun(silent_after(MESSAGE_START, text_delta("Hel")))
    await reply.read()

    reading = asyncio.create_task(reply.read())
    await asyncio.sleep(0)
    reply.expect_within(0.01)
    async with asyncio.timeout(60):
        await asyncio.wait([reading])

    failure = reading.exception()
    assert isinstance(failure, UpstreamTimeout)
    assert "idle" == failure.phase
    await reply.aclose()


async def test_patience_is_never_longer_than_the_backends() -> None:
    """A longer one is asked for in vain."""
    reply = await begun(silent_after(MESSAGE_START, text_delta("Hel")), idle_s=0.01)
    reply.expect_within(3600.0)
    await reply.read()

    async with asyncio.timeout(60):
        with pytest.raises(UpstreamTimeout):
            await reply.read()
    await reply.aclose()


# --- whatever the network does


PADDING = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=40).map(lambda text: {"p": text})
TEXT = st.text(min_size=1, max_size=6)
NOISE = st.sampled_from(
    [
        event("messageStart", {"role": "assistant"}),
        event("contentBlockStart", {"contentBlockIndex": 0, "start": {}}),
        event("contentBlockStart", {"contentBlockIndex": 0, "start": {"reasoningContent": {}}}),
        event("contentBlockStop", {"contentBlockIndex": 0}),
        event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": ""}}),
        event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"somethingNew": {}}}),
        event("heardOfNever", {"x": [1]}),
    ]
)
FAILURES = st.sampled_from(
    [
        exception("throttlingException", "slow down"),
        exception("heardOfNever", "no"),
        error("InternalFailure", "boom"),
        event("modelStreamErrorException", {"message": "boom"}),
    ]
)
METADATA = event("metadata", {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}})


@st.composite
def frames(draw: st.DrawFn) -> list[tuple[bytes, str]]:
    """A whole stream: each frame, and the text in it."""
    found: list[tuple[bytes, str]] = [(MESSAGE_START, "")]
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            found.append((draw(NOISE), ""))
        text = draw(TEXT)
        payload = {"contentBlockIndex": 0, "delta": {"text": text}} | draw(PADDING)
        found.append((event("contentBlockDelta", payload), text))
    return [*found, (STOP, ""), *([(METADATA, "")] if draw(st.booleans()) else [])]


@st.composite
def pieces_of(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """*data* as a network may cut it: byte by byte, all at once, or anywhere."""
    size = draw(st.sampled_from([1, len(data), 0]))
    if size:
        return [data[start : start + size] for start in range(0, len(data), size)]
    borders = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data)), max_size=6))})
    return [data[start:end] for start, end in itertools.pairwise(borders)]


def outcome(network: list[bytes]) -> tuple[str, str]:
    """The text that the caller sees of a stream that ends after *network*, and how it ends."""

    async def read() -> tuple[bytes, str]:
        chunks, data = source(*network), b""
        try:
            while piece := await chunks.next():
                if isinstance(piece, BedrockFault):
                    return data, "fault"
                data += piece
        except ReplyBroken:
            return data, "broken"
        return data, "done"

    data, end = asyncio.run(read())
    assert (end == "done") == data.endswith(b"data: [DONE]\n\n")
    return text_of(data), end


def text_of(stream: bytes) -> str:
    said: list[Any] = [
        msgspec.json.decode(line.removeprefix(b"data: "))
        for line in stream.split(b"\n\n")[:-1]
        if b"[DONE]" not in line
    ]
    return "".join(choice["delta"].get("content", "") for chunk in said for choice in chunk["choices"])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_whole_stream_is_read_whole(data: st.DataObject) -> None:
    """Padding, noise, and any cut by the network: all of the text, and the end."""
    whole = data.draw(frames())

    network = data.draw(pieces_of(b"".join(frame for frame, _ in whole)))

    assert ("".join(text for _, text in whole), "done") == outcome(network)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_failure_at_any_frame_is_reported(data: st.DataObject) -> None:
    """First, in the middle, or behind the last: what was before it is there, and then the fault, never an end."""
    whole = data.draw(frames())
    at = data.draw(st.integers(0, len(whole)))
    before = whole[:at]

    stream = b"".join([*(frame for frame, _ in before), data.draw(FAILURES), *(frame for frame, _ in whole[at:])])
    network = data.draw(pieces_of(stream))

    assert ("".join(text for _, text in before), "fault") == outcome(network)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_cut_at_any_byte_is_noticed(data: st.DataObject) -> None:
    """A stream is whole only on the border of a frame, behind the one that says that the message has stopped."""
    whole = data.draw(frames())
    stream = b"".join(frame for frame, _ in whole)
    cut = data.draw(st.integers(0, len(stream)))
    borders, arrived = {0}, []
    for frame, text in whole:
        borders.add(max(borders) + len(frame))
        if max(borders) <= cut:
            arrived.append((frame, text))

    is_whole = cut in borders and any(frame == STOP for frame, _ in arrived)
    network = data.draw(pieces_of(stream[:cut])) if cut else []

    assert ("".join(text for _, text in arrived), "done" if is_whole else "broken") == outcome(network)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_flipped_bit_is_noticed(data: st.DataObject) -> None:
    """Whatever the damage, the stream does not end well, and nothing damaged is shown."""
    whole = data.draw(frames())
    stream = bytearray(b"".join(frame for frame, _ in whole))
    stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    text, end = outcome(data.draw(pieces_of(bytes(stream))))

    assert "broken" == end
    assert "".join(text for _, text in whole).startswith(text)
