"""What was tried to get a text past a guardrail, or to have it look for so long that nobody else is served."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from gateway.guardrails import credentials, national_ids, personal
from gateway.guardrails.redactor import Redactor, Scan
from tests.e2e.stack import Stack, stack

CARD = "4111 1111 1111 1111"
CHAT = "/v1/chat/completions"
HI = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}
TOKEN_FIELDS = ["kv_transfer_params", "input_ids", "prompt_token_ids", "nvext", "input_embeds", "extra_body"]


@asynccontextmanager
async def guarded(action: str = "block", **fields: Any) -> AsyncIterator[Stack]:
    guardrail = {"name": "pii", "kind": "pii", "action": action, "directions": ["request"], **fields}
    model = {"guardrails": ["pii"], "allowed_engine_fields": TOKEN_FIELDS}
    async with stack(1, model=model, guardrails=[guardrail]) as running:
        yield running


@pytest.fixture
async def running() -> AsyncIterator[Stack]:
    async with guarded() as running:
        yield running


async def post(running: Stack, body: Any, path: str = CHAT) -> httpx.Response:
    return await running.http.post(path, json=body, timeout=60)


def a_tool(parameters: dict[str, Any], **function: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "look", "parameters": parameters, **function}}]}


@pytest.mark.parametrize(
    "more",
    [
        a_tool({"type": "object", "properties": {"name": {"type": "string", "description": CARD}}}),
        a_tool({"type": "object", "properties": {"metadata": {"type": "string", "enum": [CARD]}}}),
        a_tool({"type": "object", "properties": {"user": {"type": "object", "properties": {"id": {"default": CARD}}}}}),
        a_tool({"type": "object", "properties": {CARD: {"type": "string"}}}),
        a_tool({"type": "object", "properties": {"a": {"const": 4111111111111111}}}),
        a_tool({"type": "object", "properties": {"a": {"const": 4111111111111111.0}}}),
        a_tool({"type": "object", "properties": {"a": {"url": CARD, "format": CARD}}}),
        a_tool({}, name=CARD),
        {"chat_template_kwargs": {"user": CARD}},
        {"chat_template_kwargs": {"metadata": {"name": CARD}}},
        {"chat_template_kwargs": {CARD: True}},
        {"chat_template_kwargs": {"number": 4111111111111111}},
        {"documents": [{"id": CARD, "text": "x"}]},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"title": CARD}}}},
        {"messages": [{"role": CARD, "content": "hi"}]},
        {"messages": [{"role": "user", "name": CARD, "content": "hi"}]},
        {"messages": [{"role": "user", "content": "hi"}, {"role": "tool", "tool_call_id": CARD, "content": "x"}]},
        {"messages": [{"role": "user", "content": "hi", "tool_calls": [{"id": "1", "function": {"name": CARD}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi", CARD: 1}]}]},
        {"reasoning_effort": CARD},
    ],
)
async def test_no_place_in_a_request_is_overlooked(running: Stack, more: dict[str, Any]) -> None:
    """Properties of a tool that are called as fields of the API are, keys, numbers, roles, names, ids."""
    reply = await post(running, {**HI, **more})

    assert (400, "content_policy_violation") == (reply.status_code, reply.json()["error"]["code"])
    assert [] == await running.served(running.workers[0])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {**HI, "kv_transfer_params": {"prompt_token_ids": [1, 2, 3]}}),
        (CHAT, {**HI, "input_ids": [1, 2, 3]}),
        (CHAT, {**HI, "prompt_token_ids": [1, 2, 3]}),
        (CHAT, {**HI, "nvext": {"token_data": [1, 2, 3]}}),
        (CHAT, {**HI, "extra_body": {"input_ids": [1, 2, 3]}}),
        (CHAT, {**HI, "input_embeds": [[0.5]]}),
        ("/v1/completions", {"model": "tiny", "prompt": [1, 2, 3]}),
        ("/v1/completions", {"model": "tiny", "prompt": [[1, 2, 3]]}),
        ("/v1/completions", {"model": "tiny", "prompt": "hi", "prompt_embeds": "AAAA"}),
        ("/v1/embeddings", {"model": "tiny", "input": [[1, 2], [3]]}),
        ("/pooling", {"model": "tiny", "data": [1, 2]}),
        ("/detokenize", {"model": "tiny", "tokens": [1, 2]}),
        ("/v1/responses", {"model": "tiny", "input": "hi", "previous_response": {"output": []}}),
    ],
)
async def test_no_form_of_tokens_passes(running: Stack, path: str, body: dict[str, Any]) -> None:
    """Also where the model allows the field: nobody can look at it."""
    reply = await post(running, body, path)

    assert 400 == reply.status_code
    assert "which no guardrail can look at" in reply.text
    assert [] == await running.served(running.workers[0])


async def test_what_is_redacted_is_redacted_in_keys_and_schemas_too() -> None:
    async with guarded("redact") as running:
        tool = a_tool({"type": "object", "properties": {"name": {"description": f"as {CARD}"}, CARD: {}}})
        assert 200 == (await post(running, {**HI, **tool})).status_code
        sent = base64.b64decode((await running.served(running.workers[0]))[0]["body"]).decode()

    assert CARD not in sent
    assert '"name":{"description":"as [CARD]"},"[CARD]":{}' in sent


def text_parts(*texts: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, **more} for text in texts]


def of_user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SPLIT = ("my card is 4111 1111", " 1111 1111")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, of_user(text_parts(*SPLIT))),
        (CHAT, of_user(text_parts(*CARD))),
        (CHAT, of_user([*text_parts("4111 1111 1111"), IMAGE, *text_parts("1111")])),
        (CHAT, of_user(text_parts("4111 1111", "1111 1111", zz="x"))),
        (CHAT, of_user(["4111 1111", "1111 1111"])),
        (CHAT, of_user(text_parts("hello " * 2000 + "4111 1111", "1111 1111" + " hello" * 2000))),
        (CHAT, of_user([{"type": "refusal", "refusal": "4111 1111"}, *text_parts("1111 1111")])),
        (CHAT, {"messages": [{"role": "system", "content": text_parts("jane.doe@exam", "ple.org")}]}),
        ("/v1/messages", {"max_tokens": 2, **of_user(text_parts(*SPLIT))}),
        ("/v1/messages", {"max_tokens": 2, "system": text_parts(*SPLIT), **of_user("hi")}),
        (
            "/v1/messages",
            {"max_tokens": 2, **of_user([{"type": "tool_result", "tool_use_id": "a", "content": text_parts(*SPLIT)}])},
        ),
        (
            "/v1/responses",
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": each} for each in SPLIT]}]},
        ),
    ],
)
async def test_a_text_in_several_parts_is_looked_at_as_one(running: Stack, path: str, body: dict[str, Any]) -> None:
    """Engines join the parts of a message, with a line end, a blank, or nothing between."""
    reply = await post(running, {**HI, **body} if path == CHAT else {"model": "tiny", **body}, path)

    assert (400, "The guardrail 'pii' does not let this pass") == (reply.status_code, reply.json()["error"]["message"])
    assert [] == await running.served(running.workers[0])


async def test_several_messages_are_not_one_text(running: Stack) -> None:
    """Between them an engine puts who speaks."""
    messages = [{"role": "user", "content": "4111 1111"}, {"role": "user", "content": "1111 1111"}]

    assert 200 == (await post(running, {**HI, "messages": messages})).status_code


async def test_what_spans_parts_is_redacted_in_each() -> None:
    """What stands in one part is redacted there, and the part behind it stays as it was."""
    async with guarded("redact", detect=["email", "card"]) as running:
        for parts in (SPLIT, ("to jane.doe@example.org", "Summarize this")):
            assert 200 == (await post(running, {**HI, **of_user(text_parts(*parts))})).status_code
        sent = [json.loads(base64.b64decode(each["body"])) for each in await running.served(running.workers[0])]

    assert [
        text_parts("my card is [CARD]", "[CARD]"),
        text_parts("to [EMAIL]", "Summarize this"),
    ] == [each["messages"][0]["content"] for each in sent]


async def test_a_banned_phrase_in_two_parts_is_found() -> None:
    guardrail = {"name": "words", "kind": "words", "action": "block", "words": ["project falcon"]}
    async with stack(1, model={"guardrails": ["words"]}, guardrails=[guardrail]) as running:
        reply = await post(running, {**HI, **of_user(text_parts("tell me of project", "Falcon please"))})

    assert 400 == reply.status_code


async def test_a_text_that_takes_long_stands_in_nobodys_way() -> None:
    """While a megabyte of it is looked at, others are answered; it is refused when its time is over, with a reason."""
    async with guarded("redact", timeout_s=0.2) as running:
        evil = {**HI, "messages": [{"role": "user", "content": "4111 " * 200_000}]}
        looking = asyncio.ensure_future(post(running, evil))
        others = 0
        while not looking.done():
            assert 200 == (await running.http.get("/livez")).status_code
            others += 1
        reply = await looking

    assert others >= 3
    assert (400, "guardrail_limit") == (reply.status_code, reply.json()["error"]["code"])
    assert "could not look at" in reply.json()["error"]["message"]


async def test_an_operator_may_let_pass_what_takes_too_long() -> None:
    async with guarded("redact", timeout_s=0.0001, when_away="open") as running:
        long = {**HI, "messages": [{"role": "user", "content": "4111 " * 10_000}]}

        assert 200 == (await post(running, long)).status_code


SHAPES = personal.DETECTORS | national_ids.DETECTORS | credentials.DETECTORS
HOSTILE = [
    *("4111 ", "4111", "1 ", "+1 ", "+", "00 1", "a@", "a.", "@", "a@b.", "DE12 ", "DE1", "=a", "='aA1", "token=", "A"),
    *("eyJ", "eyJaaaaaaaaaaaa.", "sk-", "aA1b", "-----BEGIN ", "12-34", "(2", "1-", "4 ", "X1234567 ", "AB12"),
    "a" * 64 + "@",
]


def looked(detector: str, text: str) -> float:
    """Seconds of processor time to look at *text* as a request's is."""
    redactor = Redactor(Scan(SHAPES[detector]))
    began = time.process_time()
    for start in range(0, len(text), 2048):
        redactor.feed(text[start : start + 2048])
    redactor.end()
    return time.process_time() - began


@pytest.mark.parametrize("detector", sorted(SHAPES))
def test_time_grows_with_the_text_and_no_faster(detector: str) -> None:
    """Four times as much of anything takes four times as long, and not sixteen; less than a tenth of that is noise."""
    for text in HOSTILE:
        once, often = (text * (size // len(text)) for size in (16_384, 65_536))
        assert min(looked(detector, often) for _ in range(2)) < 9 * looked(detector, once) + 0.05, text
