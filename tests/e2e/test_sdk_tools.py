"""The official OpenAI SDK runs tools through the gateway: what an agent does, with simulated workers as its model."""

import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
import pytest_asyncio
from pydantic import BaseModel

from tests.e2e.stack import Stack, stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
            "required": ["town", "unit"],
            "additionalProperties": False,
        },
    },
}
QUESTION = {"role": "user", "content": "How warm is it?"}


class Forecast(BaseModel):
    town: str
    degrees: int
    sky: Literal["clear", "cloudy"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Stack]:
    async with stack(2) as started:
        yield started


def weather(arguments: str) -> str:
    """The tool. Raises `KeyError` for arguments that do not fit its schema."""
    asked = json.loads(arguments)
    return f"12 {asked['unit']} in {asked['town']}"


async def asked_whole(served: Stack, messages: list[Any]) -> Any:
    answer = await served.openai.chat.completions.create(model="tiny", messages=messages, tools=[WEATHER])  # type: ignore[list-item]
    return answer.choices[0]


async def asked_as_stream(served: Stack, messages: list[Any]) -> Any:
    arguments: dict[str, Any] = {"model": "tiny", "messages": messages, "tools": [WEATHER]}
    async with served.openai.chat.completions.stream(**arguments) as stream:
        return (await stream.get_final_completion()).choices[0]


@pytest.mark.parametrize("ask", [asked_whole, asked_as_stream])
async def test_a_loop_of_tool_calls_ends_with_a_text(served: Stack, ask: Any) -> None:
    """One call, its result, and an answer that says what the tool returned."""
    messages: list[Any] = [QUESTION]
    choice = await ask(served, messages)
    rounds = 0
    while choice.finish_reason == "tool_calls":
        rounds += 1
        messages.append(choice.message.to_dict())
        for call in choice.message.tool_calls:
            content = weather(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        choice = await ask(served, messages)

    assert (1, "stop") == (rounds, choice.finish_reason)
    assert choice.message.content == f"The tool returned: {messages[-1]['content']}"


async def test_an_answer_is_parsed_into_a_type(served: Stack) -> None:
    answer = await served.openai.chat.completions.parse(
        model="tiny",
        messages=[QUESTION],  # type: ignore[list-item]
        response_format=Forecast,
    )

    assert isinstance(answer.choices[0].message.parsed, Forecast)


async def test_an_answer_ends_before_a_stop_string(served: Stack) -> None:
    """In a stream as well, where the string is spread over several chunks; with log probabilities of each token."""
    arguments: dict[str, Any] = {"model": "tiny", "messages": [QUESTION], "max_tokens": 20}
    text = (await served.openai.chat.completions.create(**arguments)).choices[0].message.content
    arguments |= {"stop": [text[14:20]], "stream": True, "logprobs": True, "top_logprobs": 2}
    choices = [
        chunk.choices[0] async for chunk in await served.openai.chat.completions.create(**arguments) if chunk.choices
    ]

    assert text[:14] == "".join(choice.delta.content or "" for choice in choices)
    assert "stop" == choices[-1].finish_reason
    assert [2] * 5 == [len(choice.logprobs.content[0].top_logprobs) for choice in choices if choice.logprobs]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_loop_of_responses_ends_with_a_text(served: Stack, is_streamed: bool) -> None:
    tool = {"type": "function", **WEATHER["function"]}
    items: list[Any] = [QUESTION]

    async def ask() -> Any:
        arguments: dict[str, Any] = {"model": "tiny", "input": items, "tools": [tool]}
        if not is_streamed:
            return await served.openai.responses.create(**arguments)
        async with served.openai.responses.stream(**arguments) as stream:
            return await stream.get_final_response()

    (call,) = (await ask()).output
    output = weather(call.arguments)
    items += [call.to_dict(), {"type": "function_call_output", "call_id": call.call_id, "output": output}]

    assert f"The tool returned: {output}" == (await ask()).output_text
