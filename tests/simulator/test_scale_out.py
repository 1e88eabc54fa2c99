from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from simulator.options import SimulatorOptions
from simulator.server import serving

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
RENDERED = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


@pytest.fixture
async def scaled_out() -> AsyncIterator[httpx.AsyncClient]:
    options = SimulatorOptions(port=0, speed=0, blocks=512, lora_modules=("poet",), enable_scale_out=True)
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        yield client


async def test_a_rendered_chat_has_the_ids_that_the_engine_uses(scaled_out: httpx.AsyncClient) -> None:
    """With tools, results of tools and parts; nothing is run for it."""
    function = {"name": "add", "parameters": {"type": "object"}}
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    chat: dict[str, Any] = {
        "model": "poet",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
        ],
        "tools": [{"type": "function", "function": function}],
        "max_tokens": 3,
        "cache_salt": "mine",
    }
    rendered = (await scaled_out.post("/v1/chat/completions/render", json=chat)).json()
    asked = (await scaled_out.get("/control/requests")).json()["requests"]
    answered = (await scaled_out.post("/v1/chat/completions", json=chat | {"return_token_ids": True})).json()

    assert [] == asked
    assert answered["prompt_token_ids"] == rendered["token_ids"]
    assert ("poet", "mine", 3, None) == (
        rendered["model"],
        rendered["cache_salt"],
        rendered["sampling_params"]["max_tokens"],
        rendered["features"],
    )


async def test_a_rendered_completion_is_a_list(scaled_out: httpx.AsyncClient) -> None:
    """One for each prompt, ids as they came."""
    headers = {"x-request-id": "r1"}
    body = {"prompt": [[1, 2], [3]], "stream": True}
    rendered = (await scaled_out.post("/v1/completions/render", json=body, headers=headers)).json()

    assert [("cmpl-r1-0", [1, 2], True), ("cmpl-r1-1", [3], True)] == [
        (each["request_id"], each["token_ids"], each["stream"]) for each in rendered
    ]


async def test_all_apis_render_to_the_same_ids(scaled_out: httpx.AsyncClient) -> None:
    """Where they say the same."""
    response = {"input": "Hello"}
    message = HELLO | {"max_tokens": 5}
    bodies = {"/v1/chat/completions": HELLO, "/v1/responses": response, "/v1/messages": message}
    ids = [(await scaled_out.post(f"{path}/render", json=body)).json()["token_ids"] for path, body in bodies.items()]

    assert ids[0] == ids[1] == ids[2] == (await scaled_out.post("/tokenize", json=HELLO)).json()["tokens"]


async def test_a_bad_body_is_refused_as_elsewhere(scaled_out: httpx.AsyncClient) -> None:
    """With the field."""
    reply = await scaled_out.post("/v1/chat/completions/render", json={"messages": []})

    assert (400, "messages") == (reply.status_code, reply.json()["error"]["param"])


@pytest.mark.parametrize("path", RENDERED)
async def test_nothing_is_rendered_unless_the_worker_was_started_for_it(worker: httpx.AsyncClient, path: str) -> None:
    """It is forbidden, as since vLLM 0.30."""
    reply = await worker.post(f"{path}/render", json=HELLO)

    assert 403 == reply.status_code
    assert {
        "message": "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
        "type": "PermissionDeniedError",
        "param": None,
        "code": 403,
    } == reply.json()["error"]
