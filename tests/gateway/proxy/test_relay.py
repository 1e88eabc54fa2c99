"""Streams that are passed on, and streams that another worker takes over."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cache_index import WorkerId
from routing.booking import Ending
from tests.fakes.backends import EVENTS, Answers, BreaksAfter, Fake, Hangs, Refuses, ScriptedReply, Streams
from tests.gateway.asgi import Caller
from tests.gateway.examples import (
    CHAT_STREAM,
    DONE,
    ERROR,
    HELLO,
    USAGE,
    WORLD,
    WatchedFleet,
    a_model,
)
from tests.gateway.proxy.stage import STREAM_ASKING_USAGE, Stage

pytestmark = pytest.mark.interpreted

# ---- streams


async def test_a_stream_is_passed_on_as_it_comes() -> None:
    """Event by event, without the usage that only the gateway asked for."""
    stage = Stage(a_model(Streams(HELLO, WORLD, USAGE, DONE)))
    caller = await stage.ask(CHAT_STREAM)

    assert [HELLO, WORLD, DONE] == [m["body"] for m in caller.messages[1:] if m["body"]]
    assert (b"text/event-stream", True) == (caller.headers[b"content-type"], caller.ended)
    assert b"content-length" not in caller.headers
    assert (200, None) == stage.outcome()
    assert (7, 2) == (stage.line["prompt_tokens"], stage.line["completion_tokens"])


async def test_usage_that_the_caller_asked_for_stays() -> None:
    """The request and the stream keep it unchanged."""
    worker = Streams(HELLO, USAGE, DONE)
    caller = await Stage(a_model(worker)).ask(STREAM_ASKING_USAGE)

    assert HELLO + USAGE + DONE == caller.body
    assert STREAM_ASKING_USAGE == worker.calls[0].body


async def test_events_cut_by_the_network_are_passed_on_whole() -> None:
    """However the pieces were cut, the caller gets the same bytes."""
    whole = HELLO + WORLD + USAGE + DONE
    for size in (1, 2, 7, 50):
        pieces = [whole[i : i + size] for i in range(0, len(whole), size)]

        assert HELLO + WORLD + DONE == (await Stage(a_model(Streams(*pieces))).ask(CHAT_STREAM)).body


async def test_a_last_event_without_its_blank_line_is_passed_on() -> None:
    """The body ended properly, so the event is complete."""
    caller = await Stage(a_model(Streams(HELLO, DONE.rstrip()))).ask(CHAT_STREAM)

    assert HELLO + DONE.rstrip() == caller.body


async def test_a_stream_that_breaks_ends_with_an_error_event() -> None:
    """Half an event is dropped, there is no [DONE], and the failure counts against the worker."""
    fleet = WatchedFleet(1)
    stage = Stage(a_model(BreaksAfter(2, HELLO, WORLD[:9]), fleet=fleet))
    caller = await stage.ask(CHAT_STREAM)

    assert 200 == caller.status
    assert caller.body.startswith(HELLO + b'data: {"error":{"message":"the connection was cut"')
    assert b"[DONE]" not in caller.body
    assert caller.ended
    assert (200, "ReplyBroken") == stage.outcome()
    assert [("a", Ending.FAILED)] == fleet.endings


async def test_a_stream_that_ends_too_early_ends_with_an_error_event() -> None:
    """A clean end of the body without [DONE] is a failure."""
    fleet = WatchedFleet(1)
    stage = Stage(a_model(Streams(HELLO, WORLD[:9]), fleet=fleet))
    caller = await stage.ask(CHAT_STREAM)

    assert caller.body.startswith(HELLO + b'data: {"error":{"message":"The worker ended the stream before')
    assert b"[DONE]" not in caller.body
    assert (200, "ReplyBroken") == stage.outcome()
    assert [("a", Ending.FAILED)] == fleet.endings


@pytest.mark.parametrize("end", [Streams, lambda *pieces: BreaksAfter(2, *pieces)])
async def test_an_error_event_never_comes_inside_another(end: Callable[..., Fake]) -> None:
    """An event too long to hold passes as it comes; a blank line closes it before the error."""
    long = b'data: {"choices":[{"delta":{"content":"' + b"x" * 70_000
    caller = await Stage(a_model(end(HELLO, long))).ask(CHAT_STREAM)

    assert caller.body.startswith(HELLO + long + b'\n\ndata: {"error":')


@pytest.mark.parametrize("after", [[DONE], [], [USAGE, DONE]])
async def test_an_upstream_error_event_ends_the_stream(after: list[bytes]) -> None:
    """It is passed on once; a [DONE] after it is not."""
    fleet = WatchedFleet(1)
    stage = Stage(a_model(Streams(HELLO, ERROR, *after), fleet=fleet))
    caller = await stage.ask(CHAT_STREAM)

    assert HELLO + ERROR == caller.body
    assert caller.ended
    assert (200, "ReplyBroken") == stage.outcome()
    assert [("a", Ending.FAILED)] == fleet.endings


async def test_before_the_first_event_another_worker_takes_over() -> None:
    """The caller sees the answer of the second worker only."""
    stage = Stage(a_model(Refuses(), Streams(ERROR, DONE), BreaksAfter(1, HELLO[:9]), Streams(WORLD, DONE)))
    caller = await stage.ask(CHAT_STREAM)

    assert (200, WORLD + DONE, b"d") == (caller.status, caller.body, caller.headers[b"x-warmgate-worker"])
    assert (200, None) == stage.outcome()
    assert 4 == stage.line["attempts"]


async def test_a_caller_error_on_a_stream_is_a_plain_answer() -> None:
    """The response has the worker's message and status, and no event."""
    stage = Stage(a_model(Answers(400, b'{"error":{"message":"too long"}}')))
    caller = await stage.ask(CHAT_STREAM)

    assert (400, b'{"error":{"message":"too long"}}') == (caller.status, caller.body)
    assert (400, "Refused") == stage.outcome()


# ---- streams that go on elsewhere


def chat_chunk(delta: dict[str, str], *ids: int, **more: Any) -> bytes:
    """Return a chunk of vLLM with token ids."""
    finish = more.pop("finish", None)
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": list(ids) or None}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "tiny"}
    return b"data: " + json.dumps({**head, "choices": [choice], **more}).encode() + b"\n\n"


def text_chunk(text: str, *ids: int, finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "token_ids": list(ids)}
    head = {"id": "cmpl-2", "object": "text_completion", "created": 9, "model": "tiny"}
    return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"


OPENING = chat_chunk({"role": "assistant", "content": ""}, prompt_token_ids=[1, 2, 3])
HEL = chat_chunk({"content": "Hel"}, 10)
LAST = chat_chunk({"content": "lo"}, 11, finish="stop")
SIXTEEN = CHAT_STREAM[:-1] + b',"max_tokens":16}'
GOING_ON = (text_chunk("lo", 11, finish="stop"), DONE)


def content_of(caller: Caller) -> str:
    chunks = [json.loads(line[6:]) for line in caller.body.splitlines() if line.startswith(b"data: {")]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", ()))


async def test_another_worker_continues_the_stream_of_a_dead_one() -> None:
    """The caller gets one answer, with one id, one finish and one end."""
    fleet = WatchedFleet(2)
    dying, other = BreaksAfter(2, OPENING, HEL), Streams(*GOING_ON)
    stage = Stage(a_model(dying, other, fleet=fleet, continuation="tokens"))
    caller = await stage.ask(SIXTEEN)
    asked = json.loads(other.calls[0].body)

    assert "Hello" == content_of(caller)
    assert b"[10]" not in caller.body
    assert b"cmpl-2" not in caller.body
    assert (1, 1) == (caller.body.count(b"[DONE]"), caller.body.count(b'"finish_reason":"stop"'))
    assert (b"/v1/completions", [1, 2, 3, 10]) == (other.calls[0].path, asked["prompt"])
    assert (("a", Ending.FAILED), ("b", Ending.ANSWERED)) == (fleet.endings[0], fleet.endings[-1])
    assert (2, 1, "b") == (stage.line["attempts"], stage.line["continued"], stage.line["worker"])
    assert (200, None) == stage.outcome()


@pytest.mark.parametrize("last", [chat_chunk({"content": ""}, finish="abort"), ERROR])
async def test_another_worker_continues_an_aborted_stream(last: bytes) -> None:
    """A vLLM that shuts down ends its streams with an abort, which the caller does not see."""
    caller = await Stage(a_model(Streams(OPENING, HEL, last, DONE), Streams(*GOING_ON), continuation="tokens")).ask(
        SIXTEEN
    )

    assert "Hello" == content_of(caller)
    assert b"abort" not in caller.body
    assert b"error" not in caller.body


async def test_no_worker_is_asked_if_only_the_end_is_lost() -> None:
    """The caller has the finish already."""
    other = Streams(*GOING_ON)
    stage = Stage(a_model(BreaksAfter(3, OPENING, HEL, LAST), other, continuation="tokens"))
    caller = await stage.ask(SIXTEEN)

    assert "Hello" == content_of(caller)
    assert caller.body.endswith(DONE)
    assert [] == other.calls
    assert (200, None) == stage.outcome()


@pytest.mark.parametrize(
    ("other", "code", "reason"),
    [
        (Refuses(), b"no_worker_available", "NoWorker"),
        (Answers(400), b"upstream_broken", "ReplyBroken"),
        (Answers(500), b"upstream_broken", "ReplyBroken"),
    ],
)
async def test_the_stream_ends_with_an_error_if_no_worker_can_continue_it(
    other: Fake, code: bytes, reason: str
) -> None:
    """The error is that of the first worker, or says that no worker is there."""
    stage = Stage(a_model(BreaksAfter(2, OPENING, HEL), other, continuation="tokens"))
    caller = await stage.ask(SIXTEEN)

    assert "Hel" == content_of(caller)
    assert b'"code":"%b"' % code in caller.body
    assert not caller.body.endswith(DONE)
    assert (200, reason) == stage.outcome()


async def test_a_stream_that_cannot_be_continued_exactly_is_not() -> None:
    """Two answers in one stream; the call asks for no ids."""
    two = SIXTEEN[:-1] + b',"n":2}'
    dying, other = BreaksAfter(1, HELLO), Streams(*GOING_ON)
    caller = await Stage(a_model(dying, other, continuation="tokens")).ask(two)

    assert b'"code":"upstream_broken"' in caller.body
    assert b"return_token_ids" not in dying.calls[0].body
    assert [] == other.calls


async def test_a_worker_that_is_drained_hands_its_streams_over() -> None:
    """A drain does not count as a failure."""
    fleet = WatchedFleet(2)
    leaving, other = Hangs(OPENING, HEL), Streams(*GOING_ON)
    model = a_model(leaving, other, fleet=fleet, continuation="tokens")
    stage, caller = Stage(model), Caller(SIXTEEN)
    async with stage.serving(caller) as task:
        await leaving.hanging.wait()
        model.set_draining(WorkerId("a"), draining=True)
        handed_over = model.hand_over(WorkerId("a"))
        await task

    assert 1 == handed_over
    assert "Hello" == content_of(caller)
    assert [("a", Ending.ABORTED), ("b", Ending.ANSWERED)] == fleet.endings


async def test_a_stalled_worker_is_asked_again_if_no_other_can_continue() -> None:
    """A slow stream is better than a lost one."""
    fleet = WatchedFleet(2)
    learning = Stage(a_model(Streams(OPENING, HEL, LAST, USAGE, DONE), fleet=fleet, continuation="tokens"))
    await learning.ask(SIXTEEN)

    class PausesOnce(Hangs):
        async def _reply(self) -> ScriptedReply:
            return await super()._reply() if len(self.calls) == 1 else ScriptedReply(200, EVENTS, GOING_ON)

    paused = PausesOnce(OPENING, HEL)
    stage = Stage(a_model(paused, Answers(500), fleet=fleet, continuation="tokens"))
    caller = await stage.ask(SIXTEEN)

    assert "Hello" == content_of(caller)
    assert 2 == len(paused.calls)
    assert (200, None) == stage.outcome()


async def test_a_drain_leaves_streams_that_no_worker_could_continue() -> None:
    """They would be lost if they were cut."""
    model = a_model(Hangs(OPENING), continuation="tokens")

    assert 0 == model.hand_over(WorkerId("a"))
