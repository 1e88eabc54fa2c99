"""Bedrock's OpenAI API (`wire: openai`), answered by a server that reads bodies for itself: a simulated worker.

`tests/engine/test_bedrock_wire.py` asks a real vLLM in its place.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import openai
import pytest
import pytest_asyncio

from simulator.server import serving
from tests.e2e.cascading import on_bedrock, on_openai
from tests.e2e.stack import Stack, gateway, quick
from tests.fakes.bedrock import ENVIRONMENT, FOREIGN_ENVIRONMENT
from tests.fakes.openai_path import OpenAIPath

CONTEXT_TOKENS = 256
HELLO: list[Any] = [{"role": "user", "content": "How are you?"}]
LONG: list[Any] = [{"role": "user", "content": "seat " * 2000}]
LOOSE_FIELDS: dict[str, Any] = {
    "tools": [],
    "tool_choice": "auto",
    "stop": ["a text that no answer holds"],
    "reasoning_effort": "low",
    "extra_body": {"min_p": 0.1},
}


@dataclass(frozen=True)
class Wired:
    """A gateway whose model has no worker, and the server that answers in Bedrock's place."""

    gateway: Stack
    bedrock: OpenAIPath
    server: str

    async def directly(self, **arguments: Any) -> Any:
        """The server's own answer to a question, without the gateway and Bedrock's path."""
        body = {"model": "tiny", "messages": HELLO, "max_tokens": 8, **arguments}
        return (await self.gateway.http.post(f"{self.server}/v1/chat/completions", json=body)).json()


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FOREIGN_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest_asyncio.fixture
async def wired(aws: None) -> AsyncIterator[Wired]:
    """Its second fallback, which has more room, is an endpoint of its own."""
    async with AsyncExitStack() as exits:
        small, large = quick(max_model_len=CONTEXT_TOKENS), quick()
        server = await exits.enter_async_context(serving(small))
        roomy = await exits.enter_async_context(serving(large))
        bedrock = await exits.enter_async_context(OpenAIPath(server).serving())
        wire = on_bedrock("tiny", bedrock.base_url, wire="openai")
        models = [
            {"name": "tiny", "workers": [], "fallbacks": [wire]},
            {
                "name": "long",
                "workers": [],
                "fallbacks": [wire, on_openai(roomy, model="tiny")],
            },
        ]
        served = await exits.enter_async_context(gateway([], models=models, bedrock={"canary_at_start": False}))
        yield Wired(served, bedrock, server)


async def test_a_whole_answer_is_the_servers(wired: Wired) -> None:
    """Its text, its reason to end and its usage; fields that only an engine knows are dropped by name."""
    reply = await wired.gateway.openai.chat.completions.with_raw_response.create(
        model="tiny", messages=HELLO, max_tokens=8, **LOOSE_FIELDS
    )
    answer, own = reply.parse(), await wired.directly()
    assert answer.usage is not None

    assert own["choices"][0]["message"]["content"] == answer.choices[0].message.content
    assert ("length", "tiny") == (answer.choices[0].finish_reason, answer.model)
    assert (own["usage"]["prompt_tokens"], 8) == (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    assert ("bedrock", "min_p") == (reply.headers["x-warmgate-backend"], reply.headers["x-warmgate-dropped-params"])


async def test_empty_tools_are_not_sent(wired: Wired) -> None:
    await wired.gateway.openai.chat.completions.create(model="tiny", messages=HELLO, max_tokens=8, **LOOSE_FIELDS)

    assert [
        {
            "model": "tiny",
            "messages": HELLO,
            "max_tokens": 8,
            "stop": ["a text that no answer holds"],
            "reasoning_effort": "low",
        }
    ] == wired.bedrock.bodies


async def test_a_stream_is_the_whole_answer_in_pieces(wired: Wired) -> None:
    """Role first, then the text, the reason to end, and the usage last."""
    own = await wired.directly()
    asked: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    stream: Any = await wired.gateway.openai.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=8, **asked
    )
    chunks = [chunk async for chunk in stream]
    *pieces, last = chunks

    assert own["choices"][0]["message"]["content"] == "".join(
        piece.choices[0].delta.content or "" for piece in pieces if piece.choices
    )
    assert ("assistant", "length") == (pieces[0].choices[0].delta.role, pieces[-1].choices[0].finish_reason)
    assert ([], own["usage"]["prompt_tokens"], 8) == (
        last.choices,
        last.usage.prompt_tokens,
        last.usage.completion_tokens,
    )
    assert {"tiny"} == {chunk.model for chunk in chunks}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_prompt_without_room_is_refused(wired: Wired, *, streams: bool) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum context length is 256 tokens") as caught:
        await wired.gateway.openai.chat.completions.create(model="tiny", messages=LONG, max_tokens=8, stream=streams)

    assert "context_length_exceeded" == caught.value.code


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_prompt_without_room_goes_to_the_next_fallback(wired: Wired, *, streams: bool) -> None:
    reply = await wired.gateway.openai.chat.completions.with_raw_response.create(
        model="long", messages=LONG, max_tokens=8, stream=streams
    )

    assert (200, "openai") == (reply.http_response.status_code, reply.headers["x-warmgate-backend"])
    assert 1 == len(wired.bedrock.bodies)
