"""Workers pull cached blocks from each other's host memory, over real sockets."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.tokenizer_folder import write_tokenizer
from tests.e2e.dividing import body_of
from tests.e2e.stack import Stack, gateway
from tests.e2e.test_explain import ADMIN, explained
from tests.e2e.test_kv_aware import all_published, heard, kv_aware

PROMPT = "Every worker keeps what it has computed in its memory. " * 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(path)
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@asynccontextmanager
async def pulling_stack(folder: Path, *, reachable: bool = True) -> AsyncIterator[Stack]:
    """Two workers that compute 5,000 tokens per second, and load far more from each other's host memory."""
    async with AsyncExitStack() as exits:
        workers = []
        for _ in range(2):
            port = free_port()
            options = SimulatorOptions(
                port=0,
                prefill_tokens_per_s=5000.0,
                tpot_ms=1.0,
                host_blocks=4000,
                pull_port=port,
                pull_ms=5.0,
                kv_events=EventOptions(replay_port=0),
            )
            url = await exits.enter_async_context(serving(options))
            workers.append({"url": url, "pull_port": port if reachable else free_port()})
        model = kv_aware(folder, strategy_header=True, pull={"host_tokens": 64_000, "after_requests": 0})
        there = await exits.enter_async_context(gateway(workers, model=model, admin=ADMIN))
        await all_published(there, 2)
        yield there


async def ask(there: Stack, messages: list[dict[str, str]], **headers: str) -> httpx.Response:
    body = {"model": "tiny", "messages": messages, "max_tokens": 8}
    response = await there.http.post("/v1/chat/completions", json=body, headers={"x-session-id": "s", **headers})
    assert 200 == response.status_code, response.text
    return response


async def moved(there: Stack) -> list[tuple[str, int]]:
    """Workers and cached tokens of a session that is sent round, first by cost and then in turn."""
    messages = [{"role": "user", "content": PROMPT}]
    seen = []
    for headers in ({}, {}, {"x-warmgate-strategy": "round_robin"}, {"x-warmgate-strategy": "round_robin"}):
        response = await ask(there, messages, **headers)
        answer: dict[str, Any] = response.json()
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        seen.append((response.headers["x-warmgate-worker"], cached))
        messages += [
            {"role": "assistant", "content": answer["choices"][0]["message"]["content"]},
            {"role": "user", "content": "Go on."},
        ]
        await heard(there)
    return seen


async def bodies(there: Stack) -> list[dict[str, Any]]:
    return [body_of(request) for worker in there.workers for request in await there.served(worker)]


async def test_a_session_that_moves_computes_only_what_is_new(folder: Path) -> None:
    """The worker that never saw the session pulls more than 900 tokens of it, and reports them as cached."""
    async with pulling_stack(folder) as there:
        seen = await moved(there)
        pulls = await there.metric("warmgate_pulls_total")
        sources = [body["kv_transfer_params"] for body in await bodies(there) if "kv_transfer_params" in body]

        assert 2 == len({worker for worker, _ in seen})
        assert min(cached for _, cached in seen[1:]) > 900, seen
        assert 1.0 <= pulls['{model="tiny",outcome="complete"}']
        assert 900 < sum((await there.metric("warmgate_pulled_tokens_total")).values())
        assert {"127.0.0.1"} == {params["remote_kv_source"]["remote_host"] for params in sources}
        assert len(sources) == len({params["remote_kv_source"]["kv_request_id"] for params in sources})


async def test_what_cannot_be_pulled_is_computed(folder: Path) -> None:
    """The gateway knows the wrong ports."""
    async with pulling_stack(folder, reachable=False) as there:
        seen = await moved(there)
        pulls = await there.metric("warmgate_pulls_total")

        assert 2 == len({worker for worker, _ in seen})
        assert 1.0 <= pulls['{model="tiny",outcome="missed"}']
        assert {'{model="tiny"}': 0.0} == await there.metric("warmgate_pulled_tokens_total")


async def test_a_pull_is_explained(folder: Path) -> None:
    async with pulling_stack(folder) as there:
        messages = [{"role": "user", "content": PROMPT}]
        first = (await ask(there, messages)).headers["x-warmgate-worker"]
        await heard(there)
        body = {"model": "tiny", "messages": [*messages, {"role": "user", "content": "Go on."}]}
        reported = (await explained(there, body, **{"x-session-id": "s"})).json()
        by_worker = {each["worker"]: each["pull"] for each in reported["workers"]}

        assert by_worker.pop(first) is None
        [pull] = by_worker.values()
        assert (first, True) == (pull["source"], pull["tokens"] > 900)
