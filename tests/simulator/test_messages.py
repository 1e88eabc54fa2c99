import json
from typing import Any

import httpx
import pytest

from simulator.bodies import BodyReader
from simulator.generation import Incoming
from simulator.messages import MessagesEndpoint

MESSAGES = "/v1/messages"
HELLO: dict[str, Any] = {"model": "tiny", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]}


def events(body: str) -> list[tuple[str, dict[str, Any]]]:
    """Name and data of each event."""
    pairs = [event.split("\n") for event in body.split("\n\n") if event]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in pairs]


async def test_a_message(worker: httpx.AsyncClient) -> None:
    """In Anthropic's shape, with the text that the chat has."""
    message = (await worker.post(MESSAGES, json=HELLO)).json()
    chat = (await worker.post("/v1/chat/completions", json=HELLO)).json()

    assert ("message", "assistant", "tiny") == (message["type"], message["role"], message["model"])
    assert [{"type": "text", "text": chat["choices"][0]["message"]["content"]}] == message["content"]
    assert ("max_tokens", {"input_tokens": 12, "output_tokens": 5}) == (message["stop_reason"], message["usage"])


async def test_a_stream(worker: httpx.AsyncClient) -> None:
    """Start, one block in deltas, usage, stop; the deltas are the whole text."""
    whole = (await worker.post(MESSAGES, json=HELLO)).json()
    seen = events((await worker.post(MESSAGES, json=HELLO | {"stream": True})).text)
    names = [name for name, _ in seen]
    text = "".join(data["delta"]["text"] for name, data in seen if name == "content_block_delta")

    assert ["message_start", "content_block_start"] == names[:2]
    assert ["content_block_stop", "message_delta", "message_stop"] == names[-3:]
    assert names == [data["type"] for _, data in seen]
    assert whole["content"][0]["text"] == text
    assert {"input_tokens": 12, "output_tokens": 0} == seen[0][1]["message"]["usage"]
    assert whole["usage"] == seen[-2][1]["usage"]
    assert {"stop_reason": "max_tokens"} == seen[-2][1]["delta"]


async def test_an_answer_that_ends_by_itself(worker: httpx.AsyncClient) -> None:
    """Its turn has ended."""
    message = (await worker.post(MESSAGES, json=HELLO | {"max_tokens": 300})).json()

    assert "end_turn" == message["stop_reason"]


async def test_the_prompt_counts_as_the_message_does(worker: httpx.AsyncClient) -> None:
    """System prompt and tools included; cache marks change nothing."""
    blocks = [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]
    tool = {"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
    body = {"system": "Be brief.", "messages": [{"role": "user", "content": blocks}], "tools": [tool]}
    unmarked = body | {
        "messages": [{"role": "user", "content": "Hello"}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    }
    count = (await worker.post(f"{MESSAGES}/count_tokens", json=body)).json()["input_tokens"]
    message = (await worker.post(MESSAGES, json=HELLO | unmarked)).json()

    assert count == message["usage"]["input_tokens"]
    assert count > 12


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [({"model": "other"}, 404, "NotFoundError"), ({"max_tokens": None}, 400, "BadRequestError")],
)
async def test_errors_are_anthropics(worker: httpx.AsyncClient, change: Any, status: int, kind: str) -> None:
    """With vLLM's types."""
    reply = await worker.post(MESSAGES, json=HELLO | change)

    assert status == reply.status_code
    assert ("error", kind) == (reply.json()["type"], reply.json()["error"]["type"])


async def test_a_stream_that_fails(worker: httpx.AsyncClient) -> None:
    """The error is an event with a name."""
    await worker.post("/control/faults", json={"mode": "error_event", "status": 503})
    (only,) = events((await worker.post(MESSAGES, json=HELLO | {"stream": True})).text)

    assert ("error", "error") == (only[0], only[1]["type"])
    assert "ServiceUnavailableError" == only[1]["error"]["type"]


async def test_an_aborted_message_has_no_reason(worker: httpx.AsyncClient) -> None:
    """vLLM knows none for it; there is no text either."""
    await worker.post("/control/faults", json={"mode": "shutting_down"})
    message = (await worker.post(MESSAGES, json=HELLO)).json()

    assert ([], None, 0) == (message["content"], message["stop_reason"], message["usage"]["output_tokens"])


def rendered(**fields: Any) -> str:
    body = json.dumps({"max_tokens": 1, "messages": []} | fields).encode()
    request, _ = MessagesEndpoint(BodyReader("tiny", 10_000)).read(Incoming(body, "application/json", "1", 0))
    return request.prompts[0].text()


def test_a_turn_with_tools_is_what_vllm_makes_of_it() -> None:
    """Thoughts, text and calls are one message; results come before the rest of their turn."""
    called = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1.5}},
        {"type": "tool_use", "id": "t2", "name": "now"},
    ]
    parts = [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]
    answered = [
        {"type": "text", "text": "So?"},
        {"type": "tool_result", "tool_use_id": "t1", "content": parts},
        {"type": "tool_result", "tool_use_id": "t2"},
    ]
    turns = [{"role": "assistant", "content": called}, {"role": "user", "content": answered}]

    assert (
        "<|im_start|>assistant\n<think>Hm.</think>\nLet me see."
        '\n<tool_call>t1 add {"a": 1.5}\n<tool_call>t2 now {}<|im_end|>\n'
        "<|im_start|>tool\ncall: t1\n1\n2<|im_end|>\n<|im_start|>tool\ncall: t2\n<|im_end|>\n"
        "<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n"
    ) == rendered(messages=turns)


def test_a_turn_of_nothing_but_results_is_no_message_itself() -> None:
    """Its results are."""
    turn = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "4"}]}

    assert "<|im_start|>tool\ncall: t1\n4<|im_end|>\n<|im_start|>assistant\n" == rendered(messages=[turn])


def test_a_system_prompt_in_blocks_is_one_text() -> None:
    """Without the header of billing, which is another in every request."""
    blocks = [{"type": "text", "text": text} for text in ("x-anthropic-billing-header: 1", "Be ", "kind.")]
    messages = [{"role": "user", "content": "Hello"}]

    assert rendered(system="Be kind.", messages=messages) == rendered(system=blocks, messages=messages)


def test_a_tool_has_parameters_of_an_object() -> None:
    expected = '"name": "f", "description": "d", "parameters": {"x": 1, "type": "object"}'

    assert expected in rendered(
        messages=[{"role": "user", "content": "Hello"}],
        tools=[{"name": "f", "description": "d", "input_schema": {"x": 1}}],
    )


async def test_a_tool_is_used_and_its_result_reported(worker: httpx.AsyncClient) -> None:
    """In whole answers and in streams; a text beside the result does not begin another loop."""
    schema = {"type": "object", "properties": {"town": {"const": "Oslo"}}, "required": ["town"]}
    turns: list[Any] = [{"role": "user", "content": "Is it cold?"}]
    body = {"max_tokens": 100, "tools": [{"name": "weather", "input_schema": schema}], "messages": turns}
    answer = (await worker.post("/v1/messages", json=body)).json()
    streamed = (await worker.post("/v1/messages", json={**body, "stream": True})).text
    (used,) = answer["content"]
    result = {"type": "tool_result", "tool_use_id": used["id"], "content": "4 C"}
    turns += [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [result, {"type": "text", "text": "Be brief."}]},
    ]
    report = (await worker.post("/v1/messages", json=body)).json()
    again = (await worker.post("/v1/messages", json={**body, "tool_choice": {"type": "any"}})).json()

    assert ("tool_use", "tool_use", "weather") == (answer["stop_reason"], used["type"], used["name"])
    assert {"town": "Oslo"} == used["input"]
    assert '"type":"input_json_delta"' in streamed
    assert '"stop_reason":"tool_use"' in streamed
    assert ("end_turn", "The tool returned: 4 C") == (report["stop_reason"], report["content"][0]["text"])
    assert "tool_use" == again["stop_reason"]
