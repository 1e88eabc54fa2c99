"""Exact tokens from an engine's /tokenize."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from cache_index.tokens import pack
from gateway.models.tokenizing.engine_question import EngineAddress, EngineQuestion
from gateway.models.tokenizing.engine_tokenize import EngineTokenize
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.token_source import RawPrompt
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.fakes.engine import Page, fake_engine

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f"}}
WHOLE_TOOL = {"type": "function", "function": {"name": "f", "description": None, "parameters": None}}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        yield client


def tokenize(client: httpx.AsyncClient, url: str) -> EngineTokenize:
    question = EngineQuestion(client, lambda: [EngineAddress(url)], timeout_s=10.0, clock=time.monotonic)
    return EngineTokenize(question)


def prompt(path: str, **fields: Any) -> RawPrompt:
    return RawPrompt(path, json.dumps({"model": "alias", **fields}).encode(), "tiny")


async def asked(client: httpx.AsyncClient, path: str, **fields: Any) -> Any:
    async with fake_engine({"/tokenize": Page('{"count": 2, "max_model_len": 9, "tokens": [5, 6]}')}) as engine:
        assert Exact(pack([5, 6]), 2) == await tokenize(client, engine.url).ids(prompt(path, **fields))
        return json.loads(engine.bodies[0])


async def test_a_text_is_asked_for_by_itself(client: httpx.AsyncClient) -> None:
    """With or without the tokenizer's own begin."""
    assert {"model": "tiny", "prompt": "hi", "add_special_tokens": True} == await asked(
        client, "/v1/completions", prompt="hi"
    )
    assert {"model": "tiny", "prompt": "hi", "add_special_tokens": False} == await asked(
        client, "/v1/completions", prompt=["hi"], add_special_tokens=False
    )


async def test_a_chat_is_asked_for_with_all_that_the_route_knows(client: httpx.AsyncClient) -> None:
    """Fields that the route does not know are left out."""
    flags = {"add_generation_prompt": True, "continue_final_message": False, "add_special_tokens": False}
    plain = {"model": "tiny", "messages": [USER], **flags}

    assert plain == await asked(client, CHAT, messages=[USER], temperature=1.0)
    assert {**plain, "tools": [WHOLE_TOOL], "chat_template_kwargs": {"a": 1}} == await asked(
        client, CHAT, messages=[USER], tools=[TOOL], chat_template_kwargs={"a": 1}
    )


async def test_other_apis_are_asked_for_as_chats(client: httpx.AsyncClient) -> None:
    """The route knows only those."""
    assert [USER] == (await asked(client, "/v1/messages", messages=[USER], max_tokens=1))["messages"]
    assert [USER] == (await asked(client, "/v1/responses", input="hi"))["messages"]


async def test_ids_need_no_question(client: httpx.AsyncClient) -> None:
    """They are there."""
    assert Exact(pack([7]), 1) == await tokenize(client, "http://nobody").ids(prompt("/v1/completions", prompt=[7]))


@pytest.mark.parametrize(
    ("reason", "path", "fields"),
    [
        ("endpoint", "/v1/embeddings", {"input": "hi"}),
        ("malformed", CHAT, {"messages": []}),
        ("unsupported", CHAT, {"messages": [USER], "reasoning_effort": "low"}),
        ("unsupported", CHAT, {"messages": [USER], "documents": [{"text": "d"}]}),
        ("unsupported", CHAT, {"messages": [USER], "tools": [TOOL], "tool_choice": "none"}),
        ("unsupported", CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
        ("unsupported", "/v1/completions", {"prompt": ["a", "b"]}),
    ],
)
async def test_what_the_route_would_lose_is_not_asked(
    client: httpx.AsyncClient, reason: Any, path: str, fields: dict[str, Any]
) -> None:
    """Its tokens would be others."""
    assert NotExact(reason) == await tokenize(client, "http://nobody").ids(prompt(path, **fields))


@pytest.mark.parametrize("answer", ["", "{}", '{"tokens": [-1]}', '{"tokens": "a"}'])
async def test_an_answer_that_makes_no_sense_is_not_one(client: httpx.AsyncClient, answer: str) -> None:
    """Any malformed answer counts so."""
    async with fake_engine({"/tokenize": Page(answer)}) as engine:
        assert NotExact("engine") == await tokenize(client, engine.url).ids(prompt(CHAT, messages=[USER]))


async def test_a_worker_reports_what_it_will_count(client: httpx.AsyncClient) -> None:
    """Chats and texts are counted the same."""
    chat = {"messages": [{"role": "system", "content": "Be brief."}, USER], "tools": [TOOL]}
    async with serving(SimulatorOptions(port=0)) as url:
        for path, fields in ((CHAT, chat), ("/v1/completions", {"prompt": "hello world"})):
            outcome = await tokenize(client, url).ids(prompt(path, **fields))
            answer = (await client.post(url + path, json={"model": "tiny", **fields})).json()

            assert isinstance(outcome, Exact)
            assert answer["usage"]["prompt_tokens"] == outcome.tokens == outcome.exact_tokens
