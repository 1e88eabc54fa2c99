"""Exact tokens from an engine's render routes."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from cache_index.tokens import pack
from gateway.models.tokenizing.engine_question import EngineAddress, EngineQuestion
from gateway.models.tokenizing.engine_render import EngineRender
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.token_source import RawPrompt
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.fakes.engine import Page, fake_engine

CHAT = "/v1/chat/completions"
BODY = b'{"model": "alias", "messages": [{"role": "user", "content": "hi"}], "temperature": 1.0}'


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        yield client


def render(client: httpx.AsyncClient, url: str) -> EngineRender:
    question = EngineQuestion(client, lambda: [EngineAddress(url)], timeout_s=10.0, clock=time.monotonic)
    return EngineRender(question)


async def reported(client: httpx.AsyncClient, answer: Any, path: str = CHAT) -> Exact | NotExact:
    page = Page(answer if isinstance(answer, str) else json.dumps(answer))
    async with fake_engine({f"{path}/render": page}) as engine:
        return await render(client, engine.url).ids(RawPrompt(path, BODY, "tiny"))


async def test_the_body_goes_as_it_came(client: httpx.AsyncClient) -> None:
    """Only the model's name is replaced, and tensors are switched off."""
    async with fake_engine({f"{CHAT}/render": Page('{"token_ids": [1]}')}) as engine:
        await render(client, engine.url).ids(RawPrompt(CHAT, BODY, "tiny"))

    assert {**json.loads(BODY), "model": "tiny", "mm_payload": "none"} == json.loads(engine.bodies[0])
    assert b'"temperature": 1.0}' in engine.bodies[0]


@pytest.mark.parametrize("features", [None, {"mm_hashes": {}, "mm_placeholders": {}}])
async def test_a_chat_is_its_token_ids(client: httpx.AsyncClient, features: Any) -> None:
    """All certain."""
    assert Exact(pack([5, 6, 7]), 3) == await reported(
        client, {"token_ids": [5, 6, 7], "features": features, "model": "m"}
    )


async def test_tokens_are_certain_up_to_the_first_image(client: httpx.AsyncClient) -> None:
    """Those that stand for it are the same for every image."""
    places = {"image": [{"offset": 3, "length": 1}, {"offset": 2, "length": 1}], "audio": [{"offset": 4, "length": 1}]}
    answer = {"token_ids": [5, 6, 7, 7, 8], "features": {"mm_hashes": {}, "mm_placeholders": places}}

    assert Exact(pack([5, 6, 7, 7, 8]), 2) == await reported(client, answer)


async def test_of_several_prompts_the_first_is_certain(client: httpx.AsyncClient) -> None:
    """All of them are work."""
    answer = [{"token_ids": [1, 2]}, {"token_ids": [3]}]

    assert Exact(pack([1, 2, 3]), 2) == await reported(client, answer, "/v1/completions")


@pytest.mark.parametrize("answer", ["", "{", "{}", "[]", '{"token_ids": ["a"]}', '{"token_ids": [-1]}', "\u00ff" * 3])
async def test_an_answer_that_makes_no_sense_is_not_one(client: httpx.AsyncClient, answer: str) -> None:
    """Any malformed answer counts so."""
    assert NotExact("engine") == await reported(client, answer)


async def test_other_endpoints_cannot_be_rendered(client: httpx.AsyncClient) -> None:
    """There is no such route."""
    assert NotExact("endpoint") == await reported(client, {"token_ids": [1]}, "/v1/embeddings")


async def test_a_body_that_cannot_be_changed_is_malformed(client: httpx.AsyncClient) -> None:
    """No one is asked."""
    assert NotExact("malformed") == await render(client, "http://nobody").ids(RawPrompt(CHAT, b"[]", "m"))


async def test_how_not_to_think_is_not_asked(client: httpx.AsyncClient) -> None:
    """An engine's render route of messages does otherwise than the engine when it serves."""
    body = b'{"messages": [], "thinking": {"type": "disabled"}}'

    assert NotExact("unsupported") == await render(client, "http://nobody").ids(RawPrompt("/v1/messages", body, "m"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "hello world"}]}),
        ("/v1/completions", {"prompt": "hello world"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "hello world"}], "max_tokens": 1}),
        ("/v1/responses", {"input": "hello world"}),
    ],
)
async def test_a_worker_reports_what_it_will_count(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """Over every route, if it was started so; if not, it says that."""
    prompt = RawPrompt(path, json.dumps({"model": "alias", **body}).encode(), "tiny")
    async with serving(SimulatorOptions(port=0, enable_scale_out=True)) as url:
        outcome = await render(client, url).ids(prompt)
        answer = (await client.post(url + path, json={"model": "tiny", **body})).json()
    usage = answer["usage"]
    async with serving(SimulatorOptions(port=0)) as url:
        refused = await render(client, url).ids(prompt)

    assert isinstance(outcome, Exact)
    assert (usage.get("prompt_tokens") or usage["input_tokens"]) == outcome.tokens == outcome.exact_tokens
    assert NotExact("unavailable") == refused
