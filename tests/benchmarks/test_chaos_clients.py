"""What counts as a right answer; the clients themselves before a real worker, and before servers that fail."""

import asyncio
import json
import random
from typing import Any

import pytest

from benchmarks.chaos_clients import CHAT, COMPLETION, Client, Question, Received, Verdict, parse_arguments, run
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.benchmarks.listening import listening

QUESTION = Question.of("1", tokens=3, is_chat=True)
HEAD: dict[str, Any] = {"id": "a", "object": "chat.completion.chunk", "created": 7, "model": "tiny"}
USAGE = {
    "prompt_tokens": QUESTION.prompt_tokens,
    "completion_tokens": 3,
    "total_tokens": QUESTION.prompt_tokens + 3,
}


def choice(delta: dict[str, Any], *, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return HEAD | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} | more


ROLE = choice({"role": "assistant", "content": ""})
WORDS = [choice({"content": QUESTION.text[at : at + 4]}) for at in (0, 4)]
LAST = choice({"content": QUESTION.text[8:]}, reason="length")
REPORTED = HEAD | {"choices": [], "usage": USAGE}
WHOLE: list[Any] = [ROLE, *WORDS, LAST, REPORTED, None]


def stream(events: list[Any]) -> bytes:
    return b"".join(b"data: " + (b"[DONE]" if each is None else json.dumps(each).encode()) + b"\n\n" for each in events)


def kind(events: list[Any]) -> str:
    return QUESTION.judge(stream(events)).kind


def test_a_right_answer_is_right() -> None:
    """With the comments between its events that a gateway writes into pauses."""
    assert "right" == kind(WHOLE)
    assert "right" == QUESTION.judge(b": keep-alive\n\n" + stream(WHOLE)).kind
    assert QUESTION.judge(stream(WHOLE)).is_right


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([ROLE, WORDS[0], LAST, REPORTED, None], "wrong text"),
        ([ROLE, *WORDS, WORDS[1], LAST, REPORTED, None], "wrong text"),
        ([ROLE, *WORDS, ROLE, LAST, REPORTED, None], "wrong roles"),
        ([*WORDS, LAST, REPORTED, None], "wrong roles"),
        ([ROLE, *WORDS, LAST | {"id": "b"}, REPORTED, None], "wrong head"),
        ([ROLE, *WORDS, LAST | {"created": 8}, REPORTED, None], "wrong head"),
        ([ROLE, *WORDS, choice({"content": QUESTION.text[8:]}), REPORTED, None], "wrong end"),
        ([ROLE, *WORDS, LAST, choice({}, reason="length"), REPORTED, None], "wrong end"),
        ([ROLE, *WORDS, LAST, choice({}), REPORTED, None], "wrong end"),
        ([ROLE, *WORDS, LAST, None], "wrong usage"),
        ([ROLE, *WORDS, LAST, REPORTED, REPORTED, None], "wrong usage"),
        ([ROLE, *WORDS, LAST, REPORTED | {"usage": USAGE | {"completion_tokens": 2}}, None], "wrong usage"),
        ([ROLE, *WORDS, LAST, REPORTED], "cut"),
        ([ROLE, *WORDS], "cut"),
        ([], "cut"),
        ([ROLE, {"error": {"code": "upstream_broken", "message": "it broke"}}], "error event upstream_broken"),
    ],
)
def test_what_is_not_right_is_reported_by_its_kind(events: list[Any], expected: str) -> None:
    """Wrong is only what ends as if all were well."""
    verdict = QUESTION.judge(stream(events))

    assert expected == verdict.kind
    assert expected.startswith("wrong") == verdict.is_wrong
    assert not verdict.is_right


def test_ids_that_no_one_asked_for_are_wrong() -> None:
    """They are between the gateway and the worker; a null is what vLLM writes."""
    with_ids = LAST | {"choices": [LAST["choices"][0] | {"token_ids": [1]}]}
    with_null = LAST | {"choices": [LAST["choices"][0] | {"token_ids": None}]}

    assert "wrong ids" == kind([ROLE, *WORDS, with_ids, REPORTED, None])
    assert "right" == kind([ROLE, *WORDS, with_null, REPORTED, None])


def test_what_is_no_event_is_wrong() -> None:
    """Lines of another kind, and half an object."""
    assert "wrong event" == QUESTION.judge(b"retry: 5\n\n" + stream(WHOLE)).kind
    assert "wrong event" == QUESTION.judge(b'data: {"a\n\n').kind


def test_a_difference_is_shown_where_it_begins() -> None:
    """With what should be there, and what is."""
    other = choice({"content": "x" + QUESTION.text[5:8]})
    verdict = QUESTION.judge(stream([ROLE, WORDS[0], other, LAST, REPORTED, None]))

    assert verdict.detail.startswith("12 of 12 characters, differs at 4: ")


def test_questions_differ_and_answers_too() -> None:
    names = [Question.of(str(number), tokens=16, is_chat=number % 2 > 0) for number in range(50)]

    assert 50 == len({question.text for question in names})
    assert names[7] == Question.of("7", tokens=16, is_chat=True)
    assert {CHAT, COMPLETION} == {question.path for question in names}


async def test_a_worker_answers_rightly() -> None:
    """Chats and completions, whose texts have more than ASCII."""
    async with serving(SimulatorOptions(port=0, speed=0)) as url:
        arguments = ["--url", url, "--clients", "4", "--seconds", "0.3", "--spread-s", "0"]
        records = await run(parse_arguments(arguments))

    assert {"right"} == {record.verdict.kind for record in records}
    assert all(record.ttft_s is not None and record.ttft_s <= record.took_s for record in records)
    assert len(records) == len({record.id for record in records})


async def ask(answer: bytes) -> Verdict:
    """What a client says of *answer*, after which the connection ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(answer)

    async with listening(serve) as url:
        return (await Client(url, 0, tokens=3, rng=random.Random(1)).ask("1")).verdict


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "no answer"),
        (b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno", "status 503"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no answer"),
        (STREAM_HEAD, "cut"),
        (STREAM_HEAD + b"e\r\ndata: [DONE]\n\n\r\n", "cut"),
        (STREAM_HEAD + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", "wrong head"),
        (STREAM_HEAD + b'1c\r\ndata: {"error":{"code":5}}\n\n\r\n', "error event 5"),
    ],
)
async def test_a_failure_is_reported_as_the_client_saw_it(answer: bytes, expected: str) -> None:
    """What was cut is no whole answer, whatever it says of itself."""
    assert expected == (await ask(answer)).kind


async def test_no_one_listens() -> None:
    """Not the client's end."""
    record = await Client("http://127.0.0.1:1", 0, tokens=3, rng=random.Random(1)).ask("1")

    assert ("no connection", None) == (record.verdict.kind, record.ttft_s)


async def test_the_longest_pause_counts() -> None:
    """Before the first byte, or between two."""
    received = Received(asyncio.get_running_loop().create_future(), 10.0)
    pauses = []
    for now in (12.0, 13.0, 16.0, 17.0):
        received.take(b"x", now)
        pauses.append(received.pause_s)

    assert [2.0, 2.0, 3.0, 3.0] == pauses
    assert 12.0 == received.first_at


async def test_an_answer_that_does_not_come_is_not_waited_for_for_ever() -> None:
    received = Received(asyncio.get_running_loop().create_future(), 0.0)

    assert "no answer" == received.judge(QUESTION).kind
