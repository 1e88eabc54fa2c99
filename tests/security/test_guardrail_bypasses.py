"""What was tried to get a text past a guardrail, or to have it look for so long that no one else is served."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from gateway.proxy.bodies.bodies import Bodies
from gateway.proxy.bodies.budget import BodyBudget
from gateway.proxy.bodies.decoder import BodyDecoder
from gateway.proxy.guardrails import credentials, national_ids, personal
from gateway.proxy.guardrails.redactor import Redactor, Scan
from tests.e2e.stack import Stack, stack
from tests.gateway.proxy.guardrails.examples import a_filter, a_guard, a_rule
from tests.processor_time import least_of

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
    """Also where the model allows the field: no one can look at it."""
    reply = await post(running, body, path)

    assert 400 == reply.status_code
    assert "which no guardrail can check" in reply.text
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

    assert (400, "The guardrail 'pii' blocked the request or its answer") == (
        reply.status_code,
        reply.json()["error"]["message"],
    )
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


AUDIO = "/v1/audio/transcriptions"
FORM = "multipart/form-data; boundary=xyz"


def a_form(
    prompt: bytes, *, name: str = "prompt", file: bytes = b"RIFF", head: bytes = b"", is_file: bool = False
) -> bytes:
    filename = b'; filename="a"' if is_file else b""
    return b"".join(
        [
            b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\ntiny\r\n',
            b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + file + b"\r\n",
            b'--xyz\r\nContent-Disposition: form-data; name="%b"%b%b' % (name.encode(), filename, head),
            b"\r\n\r\n" + prompt + b"\r\n--xyz--\r\n",
        ]
    )


async def post_form(running: Stack, form: bytes, path: str = AUDIO) -> httpx.Response:
    return await running.http.post(path, content=form, headers={"content-type": FORM}, timeout=60)


@pytest.mark.parametrize("path", [AUDIO, "/v1/audio/translations"])
@pytest.mark.parametrize("name", ["prompt", "language", "response_format", "hotwords"])
@pytest.mark.parametrize("file", [b"RIFF", b"RIFF" * 100_000], ids=["small", "large"])
async def test_the_texts_of_forms_are_looked_at(running: Stack, path: str, name: str, file: bytes) -> None:
    """Whatever their field is called, and also of forms that are read beside the event loop."""
    reply = await post_form(running, a_form(b"to " + CARD.encode(), name=name, file=file), path)

    assert (400, "content_policy_violation") == (reply.status_code, reply.json()["error"]["code"])
    assert [] == await running.served(running.workers[0])


@pytest.mark.parametrize("file", [b"RIFF", b"RIFF" * 100_000], ids=["small", "large"])
async def test_the_texts_of_forms_are_redacted_in_their_place(file: bytes) -> None:
    """Every other byte stays."""
    async with guarded("redact") as running:
        assert 200 == (await post_form(running, a_form(b"to " + CARD.encode() + b"!", file=file))).status_code
        sent = base64.b64decode((await running.served(running.workers[0]))[0]["body"])

    assert a_form(b"to [CARD]!", file=file) == sent


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        (a_form(CARD.encode(), head=b"\r\nContent-Length: 19"), "'prompt', which has a content-length header"),
        (a_form(CARD.encode() + b"\xff"), "'prompt' is not UTF-8"),
        (a_form(CARD.encode(), is_file=True), "The form field 'prompt' is a file, which no guardrail can check"),
        (a_form(b"x" * 300_000), "'prompt' is too long (all fields together: 262144 bytes)"),
    ],
)
async def test_what_cannot_be_redacted_in_a_form_is_refused(form: bytes, fault: str) -> None:
    """With the field and the reason."""
    async with guarded("redact") as running:
        reply = await post_form(running, form)

        assert (400, "prompt") == (reply.status_code, reply.json()["error"]["param"])
        assert fault in reply.json()["error"]["message"]
        assert [] == await running.served(running.workers[0])


async def test_a_redacted_field_cannot_become_the_boundary() -> None:
    """What is left of it would be read as the end of the form."""
    async with guarded("redact", replacement="") as running:
        reply = await post_form(running, a_form(CARD.encode() + b"--xyz"))

        assert (400, "prompt") == (reply.status_code, reply.json()["error"]["param"])
        assert "the form's boundary" in reply.json()["error"]["message"]


MOST_HELD_S = 0.015


@asynccontextmanager
async def longest_stretch() -> AsyncIterator[list[float]]:
    """The most processor time that this thread has taken in about a millisecond of the event loop, within the block."""
    stretches = [0.0]

    async def watch() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.001)
            stretches.append(max(stretches[-1], time.thread_time() - began))

    watching = asyncio.ensure_future(watch())
    try:
        yield stretches
    finally:
        watching.cancel()


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"enum": [[], {}] * 90_000}}}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"enum": ["x"] * 19_000}}}]},
        {"messages": [{"role": "user", "content": "\u00e9\n" * 1_000_000}]},
    ],
    ids=["values", "texts", "one text"],
)
async def test_no_guarded_body_holds_the_event_loop(more: dict[str, Any]) -> None:
    """Whatever its shape: it is decoded elsewhere, and written elsewhere when something in it was redacted."""
    raw = json.dumps({**HI, **more, "user_note": f"card {CARD}"}, ensure_ascii=False).encode()
    reader = BodyDecoder(max_values=200_000, max_cpu_s=20)
    bodies = Bodies(max_body_bytes=8 * 2**20, budget=BodyBudget(2**30), reader=reader)
    guard, _ = a_guard(a_rule(a_filter(timeout_s=60)))

    async def longest_s() -> float:
        async with longest_stretch() as stretches:
            reported = await guard.request(raw, reader=bodies)
        assert raw.replace(CARD.encode(), b"[CARD]") == reported
        return stretches[-1]

    try:
        assert await least_of(5, longest_s, enough=MOST_HELD_S) <= MOST_HELD_S
    finally:
        reader.close()


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
    assert "could not check" in reply.json()["error"]["message"]


async def test_an_operator_may_let_pass_what_takes_too_long() -> None:
    async with guarded("redact", timeout_s=0.0001, on_unavailable="fail_open") as running:
        long = {**HI, "messages": [{"role": "user", "content": "4111 " * 10_000}]}

        assert 200 == (await post(running, long)).status_code


SHAPES = personal.DETECTORS | national_ids.detectors() | credentials.DETECTORS
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
        assert min(looked(detector, often) for _ in range(5)) < 9 * looked(detector, once) + 0.05, text
