import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from simulator.bodies import BodyReader
from simulator.errors import ApiError
from simulator.generation import Incoming
from simulator.options import SimulatorOptions
from simulator.responses import KeptResponse, ResponsesEndpoint, ResponseStore
from simulator.server import serving

RESPONSES = "/v1/responses"


@pytest.fixture
async def sdk(worker: httpx.AsyncClient) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{worker.base_url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_the_sdk_reads_a_response(sdk: openai.AsyncOpenAI) -> None:
    """OpenAI's own client takes it as one of OpenAI's, and gets the same one by its id."""
    response = await sdk.responses.create(model="tiny", input="Hello")

    assert response.output_text
    assert response.usage is not None
    assert (12, 0) == (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens)
    assert response.output_text == (await sdk.responses.retrieve(response.id)).output_text


async def test_the_sdk_reads_a_stream(sdk: openai.AsyncOpenAI) -> None:
    """Named events, numbered from 0; the deltas are the whole text, and usage comes with the last."""
    whole = await sdk.responses.create(model="tiny", input="Hello")
    events = [event async for event in await sdk.responses.create(model="tiny", input="Hello", stream=True)]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    last = events[-1]

    assert ["response.created", "response.in_progress"] == [event.type for event in events[:2]]
    assert list(range(len(events))) == [event.sequence_number for event in events]
    assert whole.output_text == text
    assert last.type == "response.completed"
    assert last.response.usage is not None
    assert last.response.usage.total_tokens == 12 + last.response.usage.output_tokens
    assert text == (await sdk.responses.retrieve(last.response.id)).output_text


async def test_events_have_names(worker: httpx.AsyncClient) -> None:
    """The name is the type, and no end mark follows."""
    reply = await worker.post(RESPONSES, json={"input": "Hello", "stream": True, "max_output_tokens": 1})

    assert reply.text.startswith('event: response.created\ndata: {"type":"response.created"')
    assert "[DONE]" not in reply.text


async def test_a_response_that_is_cut_short(worker: httpx.AsyncClient) -> None:
    """It is incomplete, with the reason."""
    response = (await worker.post(RESPONSES, json={"input": "Hello", "max_output_tokens": 1})).json()

    assert ("incomplete", {"reason": "max_output_tokens"}) == (response["status"], response["incomplete_details"])


async def test_a_conversation_goes_on(worker: httpx.AsyncClient) -> None:
    """It answers as it does to the whole conversation, instructions of the first turn left out."""
    first = (await worker.post(RESPONSES, json={"input": "Hello", "instructions": "Be brief."})).json()
    text = first["output"][0]["content"][0]["text"]
    second = {"input": "Go on", "previous_response_id": first["id"]}
    by_id = (await worker.post(RESPONSES, json=second)).json()
    spelled = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": text},
        {"role": "user", "content": "Go on"},
    ]
    whole = (await worker.post(RESPONSES, json={"input": spelled})).json()

    assert first["id"] == by_id["previous_response_id"]
    assert whole["usage"]["input_tokens"] == by_id["usage"]["input_tokens"]
    assert whole["output"][0]["content"] == by_id["output"][0]["content"]


async def test_another_worker_does_not_know_it(worker: httpx.AsyncClient) -> None:
    """A response is in the memory of the worker that made it."""
    response = (await worker.post(RESPONSES, json={"input": "Hello"})).json()
    options = SimulatorOptions(port=0, speed=0)
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as other:
        replies = [
            await other.get(f"{RESPONSES}/{response['id']}"),
            await other.post(f"{RESPONSES}/{response['id']}/cancel"),
            await other.post(RESPONSES, json={"input": "Go on", "previous_response_id": response["id"]}),
        ]

    assert [404, 404, 404] == [reply.status_code for reply in replies]
    assert {f"Response with id '{response['id']}' not found."} == {r.json()["error"]["message"] for r in replies}


async def test_what_is_not_to_be_stored(worker: httpx.AsyncClient) -> None:
    """It cannot be had again."""
    response = (await worker.post(RESPONSES, json={"input": "Hello", "store": False})).json()

    assert 404 == (await worker.get(f"{RESPONSES}/{response['id']}")).status_code


async def test_what_is_complete_cannot_be_cancelled(worker: httpx.AsyncClient) -> None:
    response = (await worker.post(RESPONSES, json={"input": "Hello"})).json()
    cancelled = await worker.post(f"{RESPONSES}/{response['id']}/cancel")
    background = await worker.post(RESPONSES, json={"input": "Hello", "background": True})

    assert (400, "invalid_request_error") == (cancelled.status_code, cancelled.json()["error"]["type"])
    assert (400, "background") == (background.status_code, background.json()["error"]["param"])


async def test_a_tool_and_its_output_are_part_of_the_prompt(worker: httpx.AsyncClient) -> None:
    """Another output of a tool is another prompt."""

    async def answer(output: str) -> str:
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": "c", "output": output}
        items = [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}, call, result]
        response = (await worker.post(RESPONSES, json={"input": items, "tools": [{"type": "function"}]})).json()
        return str(response["output"][0]["content"][0]["text"])

    assert await answer("1") == await answer("1")
    assert await answer("1") != await answer("2")


async def test_a_stream_that_fails(worker: httpx.AsyncClient) -> None:
    """The error is the last event, of the API's own kind."""
    await worker.post("/control/faults", json={"mode": "error_event", "after_tokens": 1})
    reply = await worker.post(RESPONSES, json={"input": "Hello", "stream": True})
    last = reply.text.rstrip().rpartition("\n\n")[2]

    assert last.startswith('event: error\ndata: {"type":"error"')
    assert '"code":"500"' in last


def test_the_oldest_response_is_forgotten() -> None:
    """No more are kept than the limit."""
    store = ResponseStore(limit=2)
    for number in range(3):
        store.keep(KeptResponse({"id": f"resp_{number}"}, []))

    assert {"id": "resp_1"} == store.find("resp_1").body
    with pytest.raises(ApiError, match="resp_0"):
        store.find("resp_0")


def rendered(*items: Any, **fields: Any) -> str:
    body = json.dumps({"input": items} | fields).encode()
    request, _ = ResponsesEndpoint(BodyReader("tiny", 10_000)).read(Incoming(body, "application/json", "1", 0))
    return request.prompts[0].text()


def test_what_an_assistant_did_in_a_row_is_one_message() -> None:
    """Thought, said and called; what it said next is another one."""
    assert (
        '<|im_start|>assistant\n<think>Hm.</think>\nSo.\n<tool_call>c f {"a": 1}\n<tool_call>d g {}<|im_end|>\n'
        "<|im_start|>assistant\nAnd?<|im_end|>\n<|im_start|>tool\ncall: c\n4<|im_end|>\n<|im_start|>assistant\n"
    ) == rendered(
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}], "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "d", "name": "g", "arguments": ""},
        {"role": "assistant", "content": "And?"},
        {"type": "function_call_output", "call_id": "c", "output": "4"},
    )


def test_thoughts_may_be_known_by_their_summary_only() -> None:
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Short."}]}

    assert "<think>Short.</think>" in rendered(summary)
    assert "<think>" not in rendered({"type": "reasoning"})
    assert '{"type": "web_search_call", "id": "w"}' in rendered({"type": "web_search_call", "id": "w"})


def test_a_function_is_the_tool_that_it_is_in_a_chat() -> None:
    """Other tools stand as they came."""
    text = rendered(
        {"role": "user", "content": "Hi"}, tools=[{"type": "function", "name": "f"}, {"type": "web_search"}]
    )

    assert '{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}\n' in text
    assert '{"type": "web_search"}\n' in text


async def test_a_function_is_called_and_its_output_reported(worker: httpx.AsyncClient) -> None:
    """In whole responses and in streams, also where the call is kept by the worker."""
    schema = {"type": "object", "properties": {"town": {"const": "Oslo"}}, "required": ["town"]}
    body = {"input": "Is it cold?", "tools": [{"type": "function", "name": "weather", "parameters": schema}]}
    response = (await worker.post(RESPONSES, json=body)).json()
    streamed = (await worker.post(RESPONSES, json={**body, "stream": True})).text
    (call,) = response["output"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "4 C"}
    more = {**body, "input": [output], "previous_response_id": response["id"]}
    report = (await worker.post(RESPONSES, json=more)).json()

    assert ("completed", "function_call", "weather") == (response["status"], call["type"], call["name"])
    assert '{"town": "Oslo"}' == call["arguments"]
    assert "response.function_call_arguments.delta" in streamed
    assert "response.function_call_arguments.done" in streamed
    assert "The tool returned: 4 C" == report["output"][0]["content"][0]["text"]


async def test_a_response_fits_a_schema(worker: httpx.AsyncClient) -> None:
    wanted = {"type": "json_schema", "name": "a", "schema": {"const": {"a": 1}}}
    response = (await worker.post(RESPONSES, json={"input": "Hello", "text": {"format": wanted}})).json()

    assert '{"a": 1}' == response["output"][0]["content"][0]["text"]
