"""Streams cut in the middle go on at the other engine, and no one can tell: the same token ids, the same text.

Seventeen are cut at a byte, by a proxy before the engine that serves them; for three the engine itself is killed.
"""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.processes import Child, Processes, free_port, start_gateway
from tests.engine.environment import BIN, model_folder
from tests.engine.stack import MODEL, START_TIMEOUT_S, WORKER_HEADER, start_engine
from tests.fault_proxy import FREE, FaultProxy, Passage, fault_proxy

CUTS = 17
KILLS = 3
KILLED = (20, 23, 24, 27, 28, 31, 32, 35, 36, 39)
"""Questions answered with ids; more than needed, as some may be answered before the engine can be killed."""
BY_TEXT = 6
CONTEXT_TOKENS = 1024  # an answer without a limit ends there
CHAT_PATH, TEXT_PATH = "/v1/chat/completions", "/v1/completions"
GREEDY = {"temperature": 0, "ignore_eos": True}  # some answers would be over before they can be cut
UP = re.compile(r"^warmgate_worker_up\{.*\} 1\.0$", re.MULTILINE)
LOGGED_WITHIN_S = 10.0
TEST_TIMEOUT_S = 900.0  # engines are started again in it

Json = dict[str, Any]


@dataclass
class Answer:
    """A stream as its caller got it."""

    worker: str
    request_id: str
    ids: list[int] = field(default_factory=list)
    text: str = ""
    roles: int = 0
    finishes: list[str] = field(default_factory=list)
    heads: set[tuple[str, str, int]] = field(default_factory=set)
    usage: list[Json] = field(default_factory=list)
    ends: int = 0
    size: int = 0
    """In bytes; the engine's own is a little larger."""

    @property
    def said(self) -> tuple[Any, ...]:
        """What has to be the same, cut or not."""
        counts = [(usage["prompt_tokens"], usage["completion_tokens"]) for usage in self.usage]
        return self.ids, self.text, self.roles, self.finishes, len(self.heads), counts, self.ends

    def take(self, data: str) -> None:
        if data == "[DONE]":
            self.ends += 1
            return
        chunk: Json = json.loads(data)
        assert "error" not in chunk, chunk
        self.heads.add((chunk["id"], chunk["object"], chunk["created"]))
        self.usage += [chunk["usage"]] if chunk.get("usage") else []
        for choice in chunk["choices"]:
            delta = choice.get("delta", choice)
            self.ids += choice.get("token_ids") or ()
            self.text += delta.get("content") or delta.get("text") or ""
            self.roles += "role" in delta
            self.finishes += [choice["finish_reason"]] if choice["finish_reason"] else []


@dataclass
class Pair:
    """Two engines with a proxy before each, and the gateway before those."""

    processes: Processes
    ports: Mapping[str, int]
    engines: dict[str, Child]
    proxies: Mapping[str, FaultProxy]
    gateway: Child
    http: httpx.AsyncClient

    async def asked(self, path: str, body: Json, *, after: int | None = None, then: Any = None) -> Answer:
        """The answer to *body*; when it has *after* tokens, *then* is called with the name of its engine."""
        asked = {"model": MODEL, "stream": True, "stream_options": {"include_usage": True}, **GREEDY, **body}
        async with self.http.stream("POST", path, json=asked) as reply:
            assert 200 == reply.status_code, await reply.aread()
            answer = Answer(reply.headers[WORKER_HEADER], reply.headers["x-request-id"])
            async for line in reply.aiter_lines():
                answer.size += len(line) + 1
                if line.startswith("data: "):
                    answer.take(line.removeprefix("data: "))
                if after is not None and len(answer.ids) >= after:
                    then(answer.worker)
                    after = None
        return answer

    async def cut(self, path: str, body: Json, worker: str, passage: Passage) -> Answer:
        """The answer to *body*, which *worker* will serve, with its bytes cut as *passage* says."""
        self.proxies[worker].set(passage)
        try:
            answer = await self.asked(path, body)
        finally:
            self.proxies[worker].set(FREE)
        assert worker == answer.worker, "another engine served it than the one that was to be cut"
        return answer

    def kill(self, worker: str) -> None:
        """All processes of an engine, at once and without a word."""
        os.killpg(self.engines[worker].process.pid, signal.SIGKILL)

    async def revive(self, worker: str) -> None:
        self.engines[worker].stop()
        self.engines[worker] = engine = start_engine(
            self.processes, worker, model_folder(), self.ports[worker], context_tokens=CONTEXT_TOKENS
        )
        await asyncio.to_thread(engine.wait_for_port, self.ports[worker], timeout_s=START_TIMEOUT_S)
        async with asyncio.timeout(60):
            while len(UP.findall((await self.http.get("/metrics")).text)) < len(self.ports):
                await asyncio.sleep(0.2)

    async def line(self, answer: Answer) -> Json:
        """The gateway's log line of it, once it is over; its *continued* is how often another engine went on."""
        give_up_at = time.monotonic() + LOGGED_WITHIN_S
        while time.monotonic() < give_up_at:
            for line in self.gateway.stdout.read_text(encoding="utf-8").splitlines():
                if answer.request_id in line and line.endswith("}"):
                    said: Json = json.loads(line)
                    return said
            await asyncio.sleep(0.05)
        raise AssertionError(f"the gateway has logged no request {answer.request_id}")


@asynccontextmanager
async def a_pair(processes: Processes, *, mode: str) -> AsyncIterator[Pair]:
    ports = {name: free_port() for name in ("engine-a", "engine-b")}
    engines = {
        name: start_engine(processes, name, model_folder(), port, context_tokens=CONTEXT_TOKENS)
        for name, port in ports.items()
    }
    for name, engine in engines.items():
        await asyncio.to_thread(engine.wait_for_port, ports[name], timeout_s=START_TIMEOUT_S)
    async with AsyncExitStack() as stack:
        proxies = {
            name: await stack.enter_async_context(fault_proxy(f"http://127.0.0.1:{port}"))
            for name, port in ports.items()
        }
        settings = {
            "server": {"port": 0},
            "models": [
                {
                    "name": MODEL,
                    "continuation": mode,
                    "workers": [{"id": name, "url": proxy.url} for name, proxy in proxies.items()],
                }
            ],
            "index": {"block_bytes": 64},
            "breaker": {"failures": 1000, "least_requests": 1000},  # both are to serve, however often they are cut
            "advanced": {"stall_s": 60},  # a busy machine pauses, and both of them at once
            "routing": {"seed": 1},
        }
        gateway, url = await asyncio.to_thread(start_gateway, processes, settings)
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=120, trust_env=False))
        yield Pair(processes, ports, engines, proxies, gateway, http)


def a_question(number: int) -> tuple[str, Json]:
    """One of four kinds in turn: a chat, one that does not ask for ids, one without a limit, a text completion."""
    text = f"Question {number}. " + "What does the traveller see from the window? " * 3
    messages = {"messages": [{"role": "user", "content": text}]}
    match number % 4:
        case 0:
            return CHAT_PATH, {**messages, "max_tokens": 60, "return_token_ids": True}
        case 1:
            return CHAT_PATH, {**messages, "max_completion_tokens": 60}
        case 2:
            return CHAT_PATH, {**messages, "return_token_ids": True}
        case _:
            return TEXT_PATH, {"prompt": text, "max_tokens": 60, "return_token_ids": True}


def a_cut(number: int, answer: Answer) -> Passage:
    """After some of an answer's bytes, but for its first events and its last; by FIN and by RST in turn."""
    return Passage(cut_after=2_000 + (answer.size - 3_000) * number // CUTS, with_reset=bool(number % 2))


def report(config: pytest.Config, name: str, said: Json) -> None:
    """To the terminal, and to the folder of --results, if there is one."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        config.get_terminal_writer().line(f"\n{name}: {json.dumps(said)}")
    folder: Path | None = config.getoption("--results")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


@pytest.mark.timeout(TEST_TIMEOUT_S)
async def test_a_cut_stream_is_the_uncut_one(request: pytest.FixtureRequest) -> None:
    """Twenty times: at bytes anywhere in the answer, and with the engine killed."""
    if not (BIN / "vllm").exists():
        pytest.skip("vLLM is not installed here: python -m tests.engine.environment")
    with Processes() as processes:
        async with a_pair(processes, mode="tokens") as pair:
            continued = asked = 0
            while continued < CUTS:  # a busy engine puts more tokens into fewer bytes, and may be done before the cut
                path, body = a_question(asked)
                uncut = await pair.asked(path, body)
                cut = await pair.cut(path, body, uncut.worker, a_cut(asked % CUTS, uncut))
                assert uncut.said == cut.said, f"question {asked}"
                assert uncut.text
                continued += (await pair.line(cut))["continued"]
                asked += 1
                assert asked < 2 * CUTS, f"only {continued} were cut in the middle"

            continued = 0
            for number, question in enumerate(KILLED):  # an API server without a processor reports all in one go
                path, body = a_question(question)
                body["max_tokens"] = 800
                uncut = await pair.asked(path, body)
                killed = await pair.asked(path, body, after=20 + 60 * (number % 3), then=pair.kill)
                assert uncut.said == killed.said, f"question {question}"
                continued += (await pair.line(killed))["continued"]
                if continued == KILLS:
                    break
                await pair.revive(killed.worker)
            assert KILLS == continued
            report(
                request.config,
                "continuation-by-tokens",
                {"cut": CUTS, "killed": KILLS, "equal": CUTS + KILLS},
            )


@pytest.mark.timeout(TEST_TIMEOUT_S)
async def test_a_stream_that_goes_on_by_text_is_complete(request: pytest.FixtureRequest) -> None:
    if not (BIN / "vllm").exists():
        pytest.skip("vLLM is not installed here: python -m tests.engine.environment")
    equal = continued = 0
    with Processes() as processes:
        async with a_pair(processes, mode="text") as pair:
            for number in range(BY_TEXT):
                path, body = a_question(4 * number)
                body |= {"stop": ["\x00never\x00"]}
                uncut = await pair.asked(path, body)
                cut = await pair.cut(path, body, uncut.worker, a_cut(2 + 2 * number, uncut))
                assert (1, 1, 1, 1) == (cut.roles, len(cut.finishes), len(cut.heads), cut.ends)
                assert cut.text[:20] == uncut.text[:20]
                went_on = (await pair.line(cut))["continued"]
                continued += went_on
                equal += went_on * (uncut.text == cut.text)
    assert continued > BY_TEXT // 2
    report(request.config, "continuation-by-text", {"cut": continued, "equal": equal})
