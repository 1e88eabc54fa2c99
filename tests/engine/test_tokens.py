"""Tokens made here beside those of a real vLLM: its render server, which needs no weights."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.processes import Processes, free_port
from gateway.models.tokenizing.agreement import agreement
from gateway.models.tokenizing.engine_question import EngineAddress, EngineQuestion
from gateway.models.tokenizing.engine_render import EngineRender
from gateway.models.tokenizing.engine_tokenize import EngineTokenize
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.loading import load_local
from gateway.models.tokenizing.local import LocalTokenizer
from gateway.models.tokenizing.token_source import RawPrompt, TokenSource
from tests.engine.conversations import recordings
from tests.engine.environment import BIN, ENVIRONMENT, model_folder
from tests.engine.stack import CONTEXT_TOKENS, MODEL, START_TIMEOUT_S

FEATURES = ("text", "chat", "parts", "developer", "tools", "tool_calls", "reasoning", "effort")
CONVERSATIONS = 10
USER = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"parameters": {"type": "object", "properties": {"n": {}}}, "name": "f"}}
CALL = {"type": "function", "function": {"name": "f", "arguments": '{"n": 1.0, "a": "\u00e9"}'}, "id": "1", "index": 0}
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", {"prompt": "hello <|im_end|>"}),
    ("/v1/completions", {"prompt": ["hello", "world"]}),
    ("/v1/completions", {"prompt": [[5, 6], [7]]}),
    ("/v1/chat/completions", {"messages": [USER], "tools": [TOOL], "tool_choice": "none"}),
    ("/v1/chat/completions", {"messages": [USER], "add_generation_prompt": False}),
    (
        "/v1/chat/completions",
        {
            "messages": [USER, {"role": "assistant", "content": "so far "}],
            "add_generation_prompt": False,
            "continue_final_message": True,
        },
    ),
    (
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "system", "content": "x-anthropic-billing-header: cch=1\nBe brief."},
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "42"}]},
            ],
            "tools": [TOOL],
        },
    ),
    (
        "/v1/messages",
        {
            "max_tokens": 1,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "f", "input_schema": {"properties": {}}}],
            "messages": [
                USER,
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"n": 1}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]},
            ],
        },
    ),
    (
        "/v1/responses",
        {
            "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}],
            "input": [
                USER,
                {"type": "function_call", "name": "f", "arguments": '{"n": 1}', "call_id": "1"},
                {"type": "function_call_output", "call_id": "1", "output": "42"},
            ],
        },
    ),
]


@pytest.fixture(scope="module")
def render_url() -> Iterator[str]:
    """A render server of the seeded model."""
    port = free_port()
    environment = {"VLLM_CACHE_ROOT": str(ENVIRONMENT / "cache"), "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    command = [str(BIN / "vllm"), "launch", "render", str(model_folder()), "--served-model-name", MODEL]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", str(CONTEXT_TOKENS)]
    command += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    with Processes() as processes:
        child = processes.start("render", command, environment=environment)
        child.wait_for_port(port, timeout_s=START_TIMEOUT_S)
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def ours() -> Iterator[LocalTokenizer]:
    with ThreadPoolExecutor(1) as pool:
        yield load_local(Path(model_folder()), executor=pool, budget_s=30.0)


def asking(url: str, ask: Callable[[TokenSource, TokenSource], Any]) -> Any:
    """What *ask* gives, of the two token_sources that ask the engine at *url*."""

    async def run() -> Any:
        async with httpx.AsyncClient() as client:
            question = EngineQuestion(client, lambda: [EngineAddress(url)], timeout_s=60.0, clock=time.monotonic)
            return await ask(EngineRender(question), EngineTokenize(question))

    return asyncio.run(run())


@pytest.mark.timeout(START_TIMEOUT_S)
def test_both_agree_on_every_feature(render_url: str, ours: LocalTokenizer) -> None:
    async def ask(render: TokenSource, tokenize: TokenSource) -> Any:
        return await agreement(ours, render, model=MODEL), await agreement(ours, tokenize, model=MODEL)

    rendered, tokenized = asking(render_url, ask)

    assert dict.fromkeys(FEATURES, "same") == rendered
    assert {**dict.fromkeys(FEATURES, "same"), "effort": "unknown"} == tokenized


@pytest.mark.parametrize(("path", "fields"), BODIES)
def test_a_body_gives_the_same_tokens(render_url: str, ours: LocalTokenizer, path: str, fields: dict[str, Any]) -> None:
    prompt = RawPrompt(path, json.dumps({"model": "alias", **fields}).encode(), MODEL)

    async def ask(render: TokenSource, _: TokenSource) -> tuple[Exact | NotExact, Exact | NotExact]:
        return await render.ids(prompt), await ours.ids(prompt)

    theirs, mine = asking(render_url, ask)

    assert isinstance(theirs, Exact)
    assert theirs == mine


def test_recorded_conversations_give_the_same_tokens(render_url: str, ours: LocalTokenizer) -> None:
    """Turn after turn, so that all but the last turn comes from what is remembered."""

    async def ask(render: TokenSource, _: TokenSource) -> list[bool]:
        same = []
        for recording in list(recordings(turns=4))[:CONVERSATIONS]:
            messages: list[dict[str, Any]] = []
            for said in recording.said:
                messages += [*said, {"role": "assistant", "content": "I see.\n"}]
                body = json.dumps({"model": MODEL, "messages": messages}).encode()
                prompt = RawPrompt("/v1/chat/completions", body, MODEL)
                theirs = await render.ids(prompt)
                same.append(isinstance(theirs, Exact) and theirs == await ours.ids(prompt))
        return same

    assert [True] * (4 * CONVERSATIONS) == asking(render_url, ask)
