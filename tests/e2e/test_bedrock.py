"""The fallback seen from outside: what Bedrock answers is an answer like any other, and ends like any other."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from tests.e2e.stack import Stack, gateway
from tests.fakes.bedrock import (
    ENVIRONMENT,
    FOREIGN_ENVIRONMENT,
    MESSAGE_START,
    REGION,
    Cut,
    FakeBedrock,
    Refuses,
    Says,
    Scenario,
    Silent,
    Streams,
    Use,
    exception,
    text_delta,
    tool_delta,
    tool_start,
)

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
TOOL: Any = {
    "type": "function",
    "function": {"name": "files.read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
}


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FOREIGN_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@asynccontextmanager
async def fallback_only(*scenarios: Scenario) -> AsyncIterator[tuple[Stack, FakeBedrock]]:
    """A gateway whose model has no worker, and Bedrock, which does *scenarios* in turn."""
    async with FakeBedrock().serving() as bedrock:
        model = {"bedrock": {"model_id": "qwen.qwen3-32b-v1:0", "region": REGION, "endpoint_url": bedrock.base_url}}
        async with gateway([], model=model, bedrock={"canary_at_start": False}, retry={"wait_s": 0.1}) as served:
            bedrock.next(*scenarios)
            yield served, bedrock


@pytest.mark.parametrize("streams", [False, True])
async def test_tools_make_the_round_trip(*, streams: bool) -> None:
    """Under the name that the caller gave, which Bedrock would not take; the results go back in one turn."""
    calling = Says(
        (), uses=(Use("files_read", {"path": "a"}), Use("files_read", id="tooluse_2")), stop_reason="tool_use"
    )
    async with fallback_only(calling, Says(("Done.",))) as (served, bedrock):
        first = await _completion(served, HELLO, streams=streams)
        calls = first.choices[0].message.tool_calls or []
        results = [{"role": "tool", "tool_call_id": call.id, "content": "text"} for call in calls]
        said = first.choices[0].message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
        second = await _completion(served, [*HELLO, said, *results], streams=streams)

        functions = [call.function for call in calls if call.type == "function"]
        assert [("files.read", {"path": "a"}), ("files.read", {})] == [
            (function.name, json.loads(function.arguments)) for function in functions
        ]
        assert ("tool_calls", "Done.") == (first.choices[0].finish_reason, second.choices[0].message.content)
        assert ["user", "assistant", "user"] == [turn["role"] for turn in bedrock.requests[1].body["messages"]]
        assert [] == bedrock.rejections


@pytest.mark.parametrize(
    "last",
    [
        (),
        (exception("throttlingException", "slow down"),),
        (tool_start("f", block=1), tool_delta('{"x"', block=1)),
        (tool_start("f", block=1), exception("modelStreamErrorException", "boom")),
        (Cut.ABORT,),
    ],
)
async def test_a_stream_that_fails_in_the_middle_raises(last: tuple[bytes | Cut, ...]) -> None:
    """The SDK sees what came, and then an error: not an end."""
    async with fallback_only(Streams((MESSAGE_START, text_delta("Hel"), *last))) as (served, _):
        chunks = await served.openai.chat.completions.create(model="tiny", messages=HELLO, stream=True)
        seen: list[str] = []
        with pytest.raises(openai.APIError):
            await _read(chunks, seen)

        assert "Hel" == "".join(seen)


async def test_a_failure_before_the_first_text_has_a_status() -> None:
    """Bedrock's 200 is not passed on before there is something to say."""
    failing = (
        Streams((MESSAGE_START, exception("serviceUnavailableException", "no"))),
        Refuses(403, "AccessDeniedException", "User: arn:aws:iam::123456789012:user/gw may not"),
    )
    for scenario in failing:
        async with fallback_only(scenario) as (served, _):
            with pytest.raises(openai.APIStatusError) as caught:
                await served.openai.chat.completions.create(model="tiny", messages=HELLO, stream=True)

            assert 503 == caught.value.status_code
            assert "123456789012" not in caught.value.response.text


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    "scenario",
    [Silent(), Streams((Cut.STALL,)), Streams((MESSAGE_START, text_delta("Hel"), Cut.STALL))],
    ids=["before the status", "before the text", "in the text"],
)
async def test_a_caller_that_leaves_frees_bedrock(scenario: Scenario, *, streams: bool) -> None:
    """Whatever it was waiting for: Bedrock sees the gateway go."""
    async with fallback_only(scenario) as (served, bedrock):
        asking = asyncio.ensure_future(_ask(served, streams=streams))
        assert await bedrock.was_called(within_s=60)
        asking.cancel()
        await asyncio.wait([asking])

        assert await bedrock.caller_left(within_s=60)


async def _completion(served: Stack, messages: list[Any], *, streams: bool) -> openai.types.chat.ChatCompletion:
    if not streams:
        found = await served.openai.chat.completions.create(model="tiny", messages=messages, tools=[TOOL])
        assert isinstance(found, openai.types.chat.ChatCompletion)
        return found
    async with served.openai.chat.completions.stream(model="tiny", messages=messages, tools=[TOOL]) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_completion()


async def _read(chunks: Any, seen: list[str]) -> None:
    async for chunk in chunks:
        seen += [choice.delta.content or "" for choice in chunk.choices]


async def _ask(served: Stack, *, streams: bool) -> None:
    body = {"model": "tiny", "messages": HELLO, "stream": streams}
    async with served.http.stream("POST", "/v1/chat/completions", json=body) as reply:
        async for _ in reply.aiter_bytes():
            pass
