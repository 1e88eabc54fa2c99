"""Fields and headers that steer an engine from inside reach no worker unless the model allows them."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from gateway.protocol.endpoints.endpoint import FORM
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.engine_fields import ENGINE_FIELDS, SESSION_FIELD
from tests.e2e.stack import Stack, stack
from tests.fuzz.bodies import FORM_BODY, FORM_TYPE, VALID

JSON_PATHS = sorted(VALID)
FORM_PATHS = sorted(path for path, endpoint in ENDPOINTS.items() if endpoint.media == FORM)
CHAT = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}
STEERING_HEADERS = {
    "X-Data-Parallel-Rank": "1",
    "x-dp-rank": "1",
    "x-worker-instance-id": "7",
    "x-dynamo-worker-instance-id": "7",
    "x-dynamo-request-priority": "9",
    "x-dynamo-session-id": "s",
    "x-tenant-id": "t",
    "x-override-rid": "r",
    "x-override-bootstrap-host": "10.0.0.9",
    "x-override-routed-dp-rank": "1",
    "x-smg-routing-key": "k",
    "x-sglext-return-input-ids": "1",
    "X-Vllm-Priority": "-9",
    "x-prefiller-host-port": "10.0.0.9:80",
    "x-gateway-destination-endpoint": "10.0.0.9:80",
    "target-pod": "p",
}


@pytest.fixture
async def running() -> AsyncIterator[Stack]:
    async with stack(1) as running:
        yield running


async def post(running: Stack, path: str, body: Mapping[str, Any] | bytes) -> httpx.Response:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await running.http.post(path, content=raw, headers={"content-type": "application/json"})


def refused(response: httpx.Response) -> str | None:
    """The field for which a request was refused as an engine's own; None if it was not."""
    error = response.json().get("error")
    if response.status_code != 400 or "internal to inference engines" not in json.dumps(error):
        return None
    return str(error["message"]).split("'")[1]


@pytest.mark.parametrize("path", JSON_PATHS)
async def test_no_endpoint_takes_engine_fields(running: Stack, path: str) -> None:
    """Every JSON endpoint answers each of them with 400 and its name, and no worker is asked."""
    body = {"model": "tiny", **VALID[path][0]}
    names = [name for name in ENGINE_FIELDS if name != SESSION_FIELD]

    assert names == [refused(await post(running, path, {**body, name: 1})) for name in names]
    assert [] == await running.served(running.workers[0])


@pytest.mark.parametrize("path", FORM_PATHS)
async def test_no_form_takes_engine_fields(running: Stack, path: str) -> None:
    """A field of a form counts as one of JSON."""
    for name in ("priority", "kv_transfer_params", "extra_body"):
        part = b'--xyz\r\nContent-Disposition: form-data; name="%b"\r\n\r\n1\r\n' % name.encode()
        boundary = FORM_TYPE.partition(b"boundary=")[2].strip(b'"')
        content = part.replace(b"xyz", boundary) + FORM_BODY
        response = await running.http.post(path, content=content, headers={"content-type": FORM_TYPE.decode()})

        assert name == refused(response)


@pytest.mark.parametrize(
    "fields",
    [
        rb'"\u0070riority": 1',
        rb'"kv_transfer\u005fparams": {"prompt_token_ids": [1]}',
        b'"priority": 1, "priority": null',
        b'"priority": null',
        b'"priority": null, "priority": 0',
        b'"extra_body": {"priority": 1}',
        b'"extra_body": {"priority": 1}, "extra_body": {}',
    ],
)
async def test_no_spelling_of_a_field_passes(running: Stack, fields: bytes) -> None:
    """Escaped and repeated keys, null, and the argument of SDKs that some servers unpack."""
    raw = json.dumps(CHAT).encode()

    for spelt in (b"{" + fields + b"," + raw[1:], raw[:-1] + b"," + fields + b"}"):
        assert refused(await post(running, "/v1/chat/completions", spelt)) in ENGINE_FIELDS
    assert [] == await running.served(running.workers[0])


async def test_of_a_repeated_key_gateway_and_worker_read_the_same_value(running: Stack) -> None:
    """The last, as Python's json and orjson do, by which vLLM and SGLang read: a model that counts is not another."""
    raw = b'{"model": "forbidden", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],'
    raw += rb'"max_tokens": 1, "\u006dodel": "tiny"}'

    response = await post(running, "/v1/chat/completions", raw)

    assert ("tiny", 1) == (response.json()["model"], response.json()["usage"]["completion_tokens"])


@pytest.mark.parametrize("path", JSON_PATHS)
async def test_no_endpoint_passes_the_session_of_a_body(running: Stack, path: str) -> None:
    """The gateway uses the name itself. Engines must not take another team's session from a caller."""
    response = await post(running, path, {"model": "tiny", **VALID[path][0], "session_id": "of-another-team"})
    seen = [base64.b64decode(each["body"]) for each in await running.served(running.workers[0])]

    assert response.headers["x-warmgate-worker"] == running.workers[0]
    assert [] == [body for body in seen if b"of-another-team" in body]


async def test_a_model_may_allow_some_fields() -> None:
    """Those that it lists pass as they came, and no others."""
    async with stack(1, model={"allowed_engine_fields": ["priority", "session_id"]}) as running:
        raw = json.dumps({"priority": 0, "session_id": "s", **CHAT}).encode()

        assert 200 == (await post(running, "/v1/chat/completions", raw)).status_code
        assert raw == base64.b64decode((await running.served(running.workers[0]))[0]["body"])
        assert "rid" == refused(await post(running, "/v1/chat/completions", {**CHAT, "priority": 0, "rid": "r"}))


@pytest.mark.parametrize("allowed", [[], list(ENGINE_FIELDS)])
async def test_headers_that_steer_engines_never_pass(allowed: list[str]) -> None:
    """Whatever the model allows: the gateway chooses who answers, and pins with headers of its own."""
    async with stack(1, model={"allowed_engine_fields": allowed}) as running:
        made = await running.http.post("/v1/responses", json={"model": "tiny", "input": "hi"}, headers=STEERING_HEADERS)
        await running.http.post("/v1/chat/completions", json=CHAT, headers=STEERING_HEADERS)
        await running.http.get(f"/v1/responses/{made.json()['id']}", headers=STEERING_HEADERS)
        seen = {name.lower() for each in await running.served(running.workers[0]) for name, _ in each["headers"]}

    assert "x-request-id" in seen
    assert set() == seen & {name.lower() for name in STEERING_HEADERS}
