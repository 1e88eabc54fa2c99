"""What an application sees that points the OpenAI SDK at the gateway."""

import base64
import json

import pytest
from openai import BadRequestError, NotFoundError

from tests.e2e.stack import HELD_KEY, Stack, quick, stack

LONG = "You are the assistant of an airline. " * 60
HEADERS = {"content-type": "application/json"}


async def ask(served: Stack, text: str, *, stream: bool = False, **more: object) -> str:
    """The answer to one question after the long system prompt."""
    messages = [{"role": "system", "content": LONG}, {"role": "user", "content": text}]
    if not stream:
        whole = await served.openai.chat.completions.create(model="tiny", messages=messages, **more)  # type: ignore[call-overload]
        return str(whole.choices[0].message.content)
    chunks = await served.openai.chat.completions.create(model="tiny", messages=messages, stream=True, **more)  # type: ignore[call-overload]
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])


async def test_the_sdk_gets_the_same_answer_streamed_and_whole() -> None:
    """Chat through the OpenAI SDK, both ways; the answer depends on the whole prompt."""
    async with stack() as served:
        whole = await ask(served, "What is the fare?", max_tokens=30)

        assert whole
        assert whole == await ask(served, "What is the fare?", stream=True, max_tokens=30)
        assert whole != await ask(served, "What is the fate?", max_tokens=30)


async def test_the_sdk_gets_text_completions_and_models() -> None:
    """The other endpoints of the first day; aliases are models too."""
    async with stack(1) as served:
        text = await served.openai.completions.create(model="gpt-4o", prompt="Once upon a time", max_tokens=8)
        models = [model.id async for model in served.openai.models.list()]

        assert text.choices[0].text
        assert ["tiny", "gpt-4o"] == models
        assert "gpt-4o" == (await served.openai.models.retrieve("gpt-4o")).id


async def test_a_shared_prefix_lands_on_the_worker_that_has_it() -> None:
    """The second request of a kind reports its worker, its strategy and what is cached there; the engine agrees."""
    async with stack() as served:
        first = await served.openai.chat.completions.with_raw_response.create(
            model="tiny", messages=[{"role": "system", "content": LONG}, {"role": "user", "content": "one"}]
        )
        again = [
            await served.openai.chat.completions.with_raw_response.create(
                model="tiny", messages=[{"role": "system", "content": LONG}, {"role": "user", "content": str(i)}]
            )
            for i in range(6)
        ]

        assert "0" == first.headers["x-warmgate-hit-blocks"]
        assert "prefix_aware" == first.headers["x-warmgate-strategy"]
        assert {first.headers["x-warmgate-worker"]} == {reply.headers["x-warmgate-worker"] for reply in again}
        assert all(int(reply.headers["x-warmgate-hit-blocks"]) >= 30 for reply in again)
        usage = again[0].parse().usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert usage.prompt_tokens_details.cached_tokens is not None
        assert usage.prompt_tokens_details.cached_tokens > 500


async def test_the_worker_gets_the_bytes_that_came_in() -> None:
    """Unknown fields, odd white space, number formats and escapes survive."""
    body = (
        b'{ "model":"tiny",  "max_tokens": 4, "x_vendor": {"a": 1.50, "b": [1e2, 12345678901234567890]},\n'
        b' "messages": [{"role": "user", "content": "caf\\u00e9"}] }'
    )
    async with stack(1) as served:
        reply = await served.http.post("/v1/chat/completions?trace=1", content=body, headers=HEADERS)
        (request,) = await served.served(served.workers[0])

        assert 200 == reply.status_code
        assert body == base64.b64decode(request["body"])


async def test_an_alias_is_replaced_and_nothing_else() -> None:
    """The worker knows its model by one name only."""
    body = (
        b'{"model" : "gpt-4o", "temperature":0.10, "messages":[{"role":"user","content":"\\"model\\": \\"gpt-4o\\""}]}'
    )
    async with stack(1) as served:
        await served.http.post("/v1/chat/completions", content=body, headers=HEADERS)
        (request,) = await served.served(served.workers[0])

        assert body.replace(b'"model" : "gpt-4o"', b'"model" : "tiny"') == base64.b64decode(request["body"])


async def test_usage_is_asked_for_and_taken_out_again() -> None:
    """The gateway accounts for every stream; who did not ask for usage does not see it, who asked does."""
    body = {"model": "tiny", "stream": True, "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    async with stack(1) as served:
        without = (await served.http.post("/v1/chat/completions", json=body)).text
        asked = {**body, "stream_options": {"include_usage": True}}
        with_usage = (await served.http.post("/v1/chat/completions", json=asked)).text
        requests = await served.served(served.workers[0])

        assert '"usage":{' not in without
        assert '"usage":{' in with_usage
        assert without.endswith("data: [DONE]\n\n")
        sent = [json.loads(base64.b64decode(request["body"])) for request in requests]
        assert [{"include_usage": True}, {"include_usage": True}] == [body["stream_options"] for body in sent]
        assert [5, 5] == [line["completion_tokens"] for line in await served.lines(2)]


async def test_the_callers_key_never_travels_upstream() -> None:
    """The worker sees the gateway's key for it, and other headers pass."""
    worker_key = "sk-of-the-worker"
    async with stack(1) as plain:
        await plain.http.post(
            "/v1/chat/completions",
            json={"model": "tiny", "messages": [{"role": "user", "content": "hi"}]},
            headers={
                "authorization": f"Bearer {HELD_KEY}",
                "x-api-key": HELD_KEY,
                "api-key": HELD_KEY,
                "x-team": "blue",
            },
        )
        (request,) = await plain.served(plain.workers[0])

        assert HELD_KEY not in str(request["headers"])
        assert ["x-team", "blue"] in [list(header) for header in request["headers"]]

        from tests.e2e.stack import gateway

        async with gateway([{"url": plain.workers[0], "api_key": worker_key}]) as keyed:
            await ask(keyed, "hello")
            request = (await keyed.served(plain.workers[0]))[-1]

        assert ["authorization", f"Bearer {worker_key}"] in [list(header) for header in request["headers"]]
        assert HELD_KEY not in str(request["headers"])
        assert worker_key not in keyed.log.getvalue().decode()


async def test_the_request_id_is_kept_or_made() -> None:
    """A caller's id is echoed and sent upstream; one that cannot stand in a header is replaced."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    async with stack(1) as served:
        kept = await served.http.post("/v1/chat/completions", json=body, headers={"x-request-id": "abc-123"})
        made = await served.http.post("/v1/chat/completions", json=body, headers={"x-request-id": "a b"})
        requests = await served.served(served.workers[0])

        assert "abc-123" == kept.headers["x-request-id"]
        assert 32 == len(made.headers["x-request-id"])
        assert ["x-request-id", "abc-123"] in [list(header) for header in requests[0]["headers"]]
        assert "chatcmpl-abc-123" == kept.json()["id"]


@pytest.mark.parametrize(
    ("method", "path", "content", "headers", "status", "code", "param"),
    [
        ("GET", "/v1/nothing", b"", {}, 404, "unknown_url", None),
        ("GET", "/v1/chat/completions", b"", {}, 405, "method_not_allowed", None),
        ("POST", "/v1/models", b"{}", HEADERS, 405, "method_not_allowed", None),
        ("POST", "/v1/chat/completions", b"a=b", {"content-type": "text/plain"}, 415, "unsupported_media_type", None),
        ("POST", "/v1/chat/completions", b"[" + b"1," * 50_000, HEADERS, 413, "request_too_large", None),
        ("POST", "/v1/chat/completions", b'{"model": "tiny",}', HEADERS, 400, None, None),
        ("POST", "/v1/completions", b'{"model": "gpt-5", "prompt": "x"}', HEADERS, 404, "model_not_found", "model"),
        ("POST", "/v1/chat/completions", b'{"model": "tiny", "messages": []}', HEADERS, 400, None, "messages"),
        ("POST", "/v1/completions", b'{"model": "tiny"}', HEADERS, 400, None, "prompt"),
    ],
)  # fmt: skip
async def test_every_fault_is_reported_in_openais_shape(
    method: str, path: str, content: bytes, headers: dict[str, str], status: int, code: str | None, param: str | None
) -> None:
    """Status, code and the field at fault; with a request id to ask about."""
    async with stack(1, server={"max_body_bytes": 50_000}) as served:
        reply = await served.http.request(method, path, content=content, headers=headers)

        assert status == reply.status_code
        error = reply.json()["error"]
        assert {"message", "type", "param", "code"} == set(error)
        assert (code, param) == (error["code"], error["param"])
        assert reply.headers["x-request-id"]


async def test_malformed_json_is_reported_with_its_place() -> None:
    """The byte where it stopped making sense."""
    async with stack(1) as served:
        reply = await served.http.post("/v1/chat/completions", content=b'{"model": "tiny",}', headers=HEADERS)

        assert "byte 17" in reply.json()["error"]["message"]


async def test_the_sdk_raises_its_own_errors() -> None:
    """Unknown model and a worker's 400 become the exceptions that applications catch."""
    async with stack(1) as served:
        with pytest.raises(NotFoundError) as unknown:
            await served.openai.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "x"}])

        assert ("model_not_found", "model") == (unknown.value.code, unknown.value.param)
        with pytest.raises(BadRequestError, match="maximum"):
            await served.openai.completions.create(model="tiny", prompt="x" * 400_000)


async def test_a_prompt_never_reaches_log_or_metrics() -> None:
    """Not when all is well, and not when it fails."""
    secret = "the-launch-code-is-0000"
    async with stack(1, options=quick(max_model_len=64)) as served:
        for content in (secret, secret * 100):
            await served.http.post(
                "/v1/chat/completions", json={"model": "tiny", "messages": [{"role": "user", "content": content}]}
            )
        await served.http.post("/v1/chat/completions", json={"model": secret, "messages": [{"role": secret}]})
        await served.lines(3)

        assert secret not in served.log.getvalue().decode()
        assert secret not in (await served.http.get("/metrics")).text
