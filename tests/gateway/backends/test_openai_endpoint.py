"""Another endpoint as a fallback, over real sockets; that it is a backend is for tests/contracts/test_backend.py."""

import json
from typing import Any

import pytest

from gateway.backends.backend import Call, whole
from gateway.backends.fallbacks.failure_class import classify
from gateway.backends.openai_endpoint import OpenAIEndpoint
from gateway.backends.upstream.timeouts import Timeouts
from gateway.protocol.errors import ClientError, ConnectFailed, MalformedBody, UpstreamError, UpstreamTimeout
from tests.gateway.backends.upstream.peer import Peer, Request, Script, Wire, free_port, serving

OK = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{"model":"x"}'


def answers(data: bytes = OK) -> Script:
    async def script(_: Request, wire: Wire) -> None:
        await wire.send(data)

    return script


async def hangs(_: Request, wire: Wire) -> None:
    await wire.until_caller_left()


def chat(body: bytes = b'{"model":"tiny","messages":[]}', *, path: bytes = b"/v1/chat/completions") -> Call:
    headers = [
        (b"content-type", b"application/json"),
        (b"x-request-id", b"7"),
        (b"x-end-user", b"alice"),
        (b"accept", b"*/*"),
        (b"openai-organization", b"callers-own"),
    ]
    return Call(b"POST", path, headers, body, streams=False, model="tiny")


def endpoint_at(peer: Peer, base: str = "/openai/v1", **more: Any) -> OpenAIEndpoint:
    return OpenAIEndpoint("openai:llm", peer.url + base, model="big/model", **more)


async def sent(call: Call, **more: Any) -> Request:
    async with serving(answers()) as peer:
        endpoint = endpoint_at(peer, **more)
        reply = await endpoint.send(call)
        assert (200, b'{"model":"x"}') == (reply.status, await whole(reply))
        await reply.aclose()
        await endpoint.aclose()
        return peer.requests[0]


async def test_it_is_asked_under_its_own_base_name_and_key() -> None:
    request = await sent(chat(), api_key="sk-1")

    assert b"POST /openai/v1/chat/completions HTTP/1.1" == request.line
    assert b"Bearer sk-1" == request.header(b"authorization")
    assert {"model": "big/model", "messages": []} == json.loads(request.body)


@pytest.mark.parametrize(
    ("base", "path", "asked"),
    [
        ("/v1", b"/v1/embeddings", b"/v1/embeddings"),
        ("", b"/v1/completions?trace=1", b"/completions?trace=1"),
        ("/v2/", b"/v1/chat/completions", b"/v2/chat/completions"),
    ],
)
async def test_its_base_takes_the_place_of_v1(base: str, path: bytes, asked: bytes) -> None:
    async with serving(answers()) as peer:
        endpoint = endpoint_at(peer, base)
        reply = await endpoint.send(chat(path=path))
        await whole(reply)
        await reply.aclose()
        await endpoint.aclose()

    assert asked == peer.requests[0].line.split()[1]


async def test_what_callers_say_in_other_headers_stays_here() -> None:
    request = await sent(chat())

    assert (b"7", b"*/*", b"application/json") == tuple(
        request.header(name) for name in (b"x-request-id", b"accept", b"content-type")
    )
    assert request.header(b"x-end-user") is request.header(b"openai-organization") is None
    assert request.header(b"authorization") is None


async def test_the_rest_of_the_body_keeps_its_bytes() -> None:
    """Numbers and escapes are the caller's; what engines understand passes, what only the gateway does goes."""
    body = b'{"model":"tiny","messages":[{"role":"user","content":"\\u00e9"}],"top_k":5,"seed":1e2,"cache_salt":"x"}'
    request = await sent(chat(body))

    assert (
        b'{"model":"big/model","messages":[{"role":"user","content":"\\u00e9"}],"top_k":5,"seed":1e2}' == request.body
    )


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        ({"max_tokens": 5000}, {"max_tokens": 100}),
        ({"max_tokens": 100}, {"max_tokens": 100}),
        ({"max_completion_tokens": 101, "max_tokens": None}, {"max_completion_tokens": 100, "max_tokens": None}),
        ({"max_tokens": "many"}, {"max_tokens": "many"}),
        ({}, {}),
    ],
)
async def test_limits_of_output_are_cut_to_what_it_takes(asked: dict[str, Any], limits: dict[str, Any]) -> None:
    request = await sent(chat(json.dumps({"model": "tiny", **asked}).encode()), max_output_tokens=100)

    assert {"model": "big/model", **limits} == json.loads(request.body)


@pytest.mark.parametrize("path", [b"/v1/responses", b"/v1/messages", b"/tokenize", b"/v1/chat/completions/batch"])
async def test_what_such_endpoints_do_not_have_is_not_sent(path: bytes) -> None:
    async with serving(answers()) as peer:
        with pytest.raises(ClientError, match="does not serve this endpoint"):
            await endpoint_at(peer).send(chat(path=path))

    assert [] == peer.requests


async def test_a_body_that_is_no_object_is_not_sent() -> None:
    async with serving(answers()) as peer:
        with pytest.raises(MalformedBody) as caught:
            await endpoint_at(peer).send(chat(b"[secret"))

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("status", [402, 404, 405, 410])
async def test_a_model_that_is_not_there_is_not_the_callers_fault(status: int) -> None:
    said = b"HTTP/1.1 %d No\r\ncontent-length: 2\r\n\r\n{}" % status
    async with serving(answers(said)) as peer:
        endpoint = endpoint_at(peer)
        with pytest.raises(UpstreamError) as caught:
            await endpoint.send(chat())
        await endpoint.aclose()

    assert 502 == caught.value.status
    assert "shut" == classify(caught.value).kind


@pytest.mark.parametrize("status", [400, 401, 422, 429, 500, 503])
async def test_other_statuses_are_replies(status: int) -> None:
    async with serving(answers(b"HTTP/1.1 %d No\r\ncontent-length: 2\r\n\r\n{}" % status)) as peer:
        endpoint = endpoint_at(peer)
        reply = await endpoint.send(chat())
        assert (status, b"{}") == (reply.status, await whole(reply))
        await reply.aclose()
        await endpoint.aclose()


async def test_it_may_be_given_less_time_for_one_call() -> None:
    async with serving(hangs) as peer:
        endpoint = endpoint_at(peer, timeouts=Timeouts(first_byte_s=60.0))
        call = Call(b"POST", b"/v1/chat/completions", [], b"{}", streams=True, model="tiny")
        with pytest.raises(UpstreamTimeout) as caught:
            await endpoint.send(call, first_byte_s=0.05)
        await endpoint.aclose()

    assert "first_byte" == caught.value.phase


async def test_its_connections_are_kept_counted_and_cut() -> None:
    async with serving(answers()) as peer:
        endpoint = endpoint_at(peer)
        for _ in range(2):
            reply = await endpoint.send(chat())
            await whole(reply)
            await reply.aclose()
        assert (1, 1) == (endpoint.connections_open, peer.connections)
        endpoint.retire()
        assert 0 == endpoint.connections_open
        await endpoint.aclose()
        with pytest.raises(ConnectFailed):
            await endpoint.send(chat())


async def test_an_address_at_which_no_one_listens_is_a_failed_connect() -> None:
    endpoint = OpenAIEndpoint("openai:llm", f"http://127.0.0.1:{free_port()}/v1", model="m")
    with pytest.raises(ConnectFailed):
        await endpoint.send(chat())


@pytest.mark.parametrize("url", ["ftp://x", "http://u:p@x/v1", "http://x/v1?a=b"])
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="worker URL"):
        OpenAIEndpoint("openai:llm", url, model="m")


async def test_marks_of_another_api_are_removed() -> None:
    """OpenAI's API rejects them. A tool may have an argument or a parameter of the same name."""
    mark = {"cache_control": {"type": "ephemeral"}}
    parameters = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"cache_control": 1}'}}
    turns = [
        {"role": "system", "content": [{"type": "text", "text": "S", **mark}], **mark},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "user", "content": "cache_control", **mark},
    ]
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters, **mark}, **mark}]
    request = await sent(chat(json.dumps({"model": "tiny", "messages": turns, "tools": tools, "top_p": 1e0}).encode()))

    assert {
        "model": "big/model",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "S"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "user", "content": "cache_control"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}],
        "top_p": 1.0,
    } == json.loads(request.body)


@pytest.mark.parametrize("messages", [b'"cache_control"', b'{"cache_control":1}', b'[1,["cache_control"]]'])
async def test_messages_of_another_form_reach_the_endpoint(messages: bytes) -> None:
    """The endpoint says what is wrong with them."""
    request = await sent(chat(b'{"model":"tiny","messages":' + messages + b"}"))

    assert b'{"model":"big/model","messages":' + messages + b"}" == request.body


async def test_a_session_stays_here() -> None:
    """Endpoints outside do not know the field."""
    request = await sent(chat(b'{"model":"tiny","messages":[],"session_id":"s"}'))

    assert b'{"model":"big/model","messages":[]}' == request.body
