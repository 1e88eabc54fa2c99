"""What every backend keeps to, whatever it talks to: a worker over HTTP, or Bedrock."""

import asyncio
import json
from typing import Any

import pytest

from gateway.backends.backend import Call, Reply
from gateway.protocol.errors import ConnectFailed, ReplyBroken, UpstreamError, UpstreamTimeout
from tests.contracts.bedrock_harness import BedrockHarness
from tests.contracts.harness import Answers, AnswersStatus, BreaksAfter, HangsAfter, Harness, Refuses, Streams
from tests.contracts.worker_harness import DynamoHarness, OpenAIEndpointHarness, RankHarness, WorkerHarness

HARNESSES: list[Harness] = [
    WorkerHarness(),
    OpenAIEndpointHarness(),
    RankHarness(),
    DynamoHarness(),
    BedrockHarness(),
    BedrockHarness("openai"),
]

WORDS = ("Hello", " there", ",", " world")


@pytest.fixture(params=HARNESSES, ids=lambda harness: harness.name)
def harness(request: pytest.FixtureRequest) -> Harness:
    chosen: Harness = request.param
    return chosen


def chat(*, streams: bool) -> Call:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "stream": streams}
    return Call(
        method=b"POST",
        path=b"/v1/chat/completions",
        headers=[(b"content-type", b"application/json")],
        body=json.dumps(body).encode(),
        streams=streams,
        model="tiny",
    )


async def read_all(reply: Reply) -> bytes:
    pieces = []
    while not reply.ended and (piece := await reply.read()):
        pieces.append(piece)
    return b"".join(pieces)


async def read_to_failure(reply: Reply) -> tuple[bytes, UpstreamError | None]:
    pieces = []
    try:
        while piece := await reply.read():
            pieces.append(piece)
    except UpstreamError as exc:
        return b"".join(pieces), exc
    return b"".join(pieces), None


def events(stream: bytes) -> list[bytes]:
    """The data of each complete event; comments are left out."""
    blocks = stream.split(b"\n\n")[:-1]
    return [block.removeprefix(b"data: ") for block in blocks if block.startswith(b"data: ")]


def words(chunks: list[bytes]) -> list[str]:
    deltas: list[dict[str, Any]] = [
        choice["delta"] for chunk in chunks if chunk != b"[DONE]" for choice in json.loads(chunk)["choices"]
    ]
    return [delta["content"] for delta in deltas if delta.get("content")]


async def test_an_answer_is_a_chat_completion(harness: Harness) -> None:
    """Status 200 and OpenAI's JSON, under the model name by which the caller asked."""
    async with harness.stage(Answers("Hello there")) as stage:
        reply = await stage.backend.send(chat(streams=False))
        completion = json.loads(await read_all(reply))
        await reply.aclose()

    choice = completion["choices"][0]
    assert (200, "application/json") == (reply.status, dict(reply.headers)[b"content-type"].decode().partition(";")[0])
    assert ("chat.completion", "tiny") == (completion["object"], completion["model"])
    assert ("assistant", "Hello there", "stop") == (
        choice["message"]["role"],
        choice["message"]["content"],
        choice["finish_reason"],
    )


async def test_a_stream_is_server_sent_events_with_a_done(harness: Harness) -> None:
    """Each word is a chunk under the caller's model name, and the last event is ``[DONE]``."""
    async with harness.stage(Streams(WORDS)) as stage:
        reply = await stage.backend.send(chat(streams=True))
        chunks = events(await read_all(reply))
        await reply.aclose()

    assert (200, "text/event-stream") == (reply.status, dict(reply.headers)[b"content-type"].decode().partition(";")[0])
    assert list(WORDS) == words(chunks)
    assert b"[DONE]" == chunks[-1]
    assert {("chat.completion.chunk", "tiny")} == {
        (chunk["object"], chunk["model"]) for chunk in map(json.loads, chunks[:-1])
    }


async def test_a_stream_is_not_held_back(harness: Harness) -> None:
    """What has come can be read while the remote side still has the connection open."""
    async with harness.stage(HangsAfter(WORDS)) as stage:
        reply = await stage.backend.send(chat(streams=True))
        seen = b""
        async with asyncio.timeout(60):
            while len(words(events(seen))) < len(WORDS):
                seen += await reply.read()
        ended = reply.ended
        await reply.aclose()

    assert list(WORDS) == words(events(seen))
    assert not ended


async def test_a_reply_has_ended_when_all_of_it_was_read(harness: Harness) -> None:
    """After the end a read gives nothing; closing twice does no harm."""
    async with harness.stage(Streams(WORDS)) as stage:
        reply = await stage.backend.send(chat(streams=True))
        before = reply.ended
        await read_all(reply)
        after = reply.ended
        nothing = await reply.read()
        await reply.aclose()
        await reply.aclose()

    assert (False, True, b"") == (before, after, nothing)


async def test_headers_are_end_to_end(harness: Harness) -> None:
    """Names are in lower case, and nothing about the upstream connection is among them."""
    async with harness.stage(Streams(WORDS)) as stage:
        reply = await stage.backend.send(chat(streams=True))
        await reply.aclose()

    names = {name for name, _ in reply.headers}
    assert names == {name.lower() for name in names}
    assert set() == names & {b"connection", b"transfer-encoding", b"keep-alive"}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("status", [400, 429, 500, 503])
async def test_an_error_status_is_a_reply(harness: Harness, status: int, *, streams: bool) -> None:
    """The backend does not judge: status and an OpenAI error body come back, streaming or not."""
    async with harness.stage(AnswersStatus(status)) as stage:
        reply = await stage.backend.send(chat(streams=streams))
        body = json.loads(await read_all(reply))
        await reply.aclose()

    assert status == reply.status
    assert isinstance(body["error"]["message"], str)
    assert 1 == stage.calls_seen


async def test_a_refused_connection_is_distinguished(harness: Harness) -> None:
    """Nothing was sent, so the next in the order may be asked without a second thought."""
    async with harness.stage(Refuses()) as stage:
        with pytest.raises(ConnectFailed):
            await stage.backend.send(chat(streams=False))


@pytest.mark.parametrize("streams", [False, True])
async def test_no_first_byte_is_a_timeout(harness: Harness, *, streams: bool) -> None:
    """A remote side that stays silent ends as ``first_byte`` and sees its caller go."""
    async with harness.stage(HangsAfter(), first_byte_s=0.5) as stage:
        with pytest.raises(UpstreamTimeout) as timeout:
            await stage.backend.send(chat(streams=streams))
        left = await stage.caller_left(within_s=60)

    assert "first_byte" == timeout.value.phase
    assert left


async def test_silence_in_the_body_is_a_timeout(harness: Harness) -> None:
    """What came before the silence is handed out, then the read ends as ``idle``."""
    async with harness.stage(HangsAfter(WORDS), idle_s=1.0) as stage:
        reply = await stage.backend.send(chat(streams=True))
        seen, failure = await read_to_failure(reply)
        await reply.aclose()

    assert list(WORDS) == words(events(seen))
    assert isinstance(failure, UpstreamTimeout)
    assert "idle" == failure.phase


@pytest.mark.parametrize("streams", [False, True])
async def test_a_connection_that_breaks_before_the_head_is_broken(harness: Harness, *, streams: bool) -> None:
    """No status came, so no reply does."""
    async with harness.stage(BreaksAfter()) as stage:
        with pytest.raises(ReplyBroken):
            await stage.backend.send(chat(streams=streams))


async def test_a_stream_that_breaks_says_so_after_its_last_byte(harness: Harness) -> None:
    """Everything before the break is handed out; a cut stream never passes for a complete one."""
    async with harness.stage(BreaksAfter(WORDS)) as stage:
        reply = await stage.backend.send(chat(streams=True))
        seen, failure = await read_to_failure(reply)
        ended = reply.ended
        await reply.aclose()

    assert list(WORDS) == words(events(seen))
    assert isinstance(failure, ReplyBroken)
    assert b"[DONE]" not in seen
    assert not ended


async def test_closing_early_stops_the_work(harness: Harness) -> None:
    """The remote side sees its caller go."""
    async with harness.stage(HangsAfter(WORDS)) as stage:
        reply = await stage.backend.send(chat(streams=True))
        await reply.read()
        await reply.aclose()

        assert await stage.caller_left(within_s=60)


@pytest.mark.parametrize("streams", [False, True])
async def test_cancelling_before_the_first_byte_stops_the_work(harness: Harness, *, streams: bool) -> None:
    """A caller who hangs up while waiting for an answer frees the worker."""
    async with harness.stage(HangsAfter()) as stage:
        sending = asyncio.create_task(stage.backend.send(chat(streams=streams)))
        async with asyncio.timeout(60):
            while not stage.calls_seen:  # the harness counts, it does not signal
                await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.wait([sending])

        assert sending.cancelled()
        assert await stage.caller_left(within_s=60)


async def test_cancelling_a_read_leaves_the_reply_closable(harness: Harness) -> None:
    """A caller who hangs up in the middle of a stream frees the worker."""
    async with harness.stage(HangsAfter(WORDS)) as stage:
        reply = await stage.backend.send(chat(streams=True))

        async def read_on() -> None:
            while await reply.read():
                pass

        reading = asyncio.create_task(read_on())
        await asyncio.sleep(0.05)
        reading.cancel()
        await asyncio.wait([reading])
        await reply.aclose()

        assert reading.cancelled()
        assert await stage.caller_left(within_s=60)


async def test_calls_run_side_by_side(harness: Harness) -> None:
    """Twenty calls at a time get twenty whole answers."""
    async with harness.stage(Streams(WORDS)) as stage:

        async def call() -> list[str]:
            reply = await stage.backend.send(chat(streams=True))
            try:
                return words(events(await read_all(reply)))
            finally:
                await reply.aclose()

        answers = await asyncio.gather(*(call() for _ in range(20)))

    assert [list(WORDS)] * 20 == answers
    assert 20 == stage.calls_seen
