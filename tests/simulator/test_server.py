import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from engine_model.blocks import PLAIN, BlockHash, BlockScope
from simulator.options import SimulatorOptions
from simulator.server import serving


class Writes:
    """A sink that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def stored(
        self,
        hashes: Sequence[BlockHash],
        parent: BlockHash | None,
        token_ids: Sequence[int],
        scope: BlockScope = PLAIN,
    ) -> None:
        self.heard.append((len(hashes), parent, list(token_ids)))

    def removed(self, hashes: Sequence[BlockHash]) -> None:
        self.heard.append(("removed", len(hashes)))

    def cleared(self) -> None:
        self.heard.append(("cleared",))


async def test_workers_beside_each_other_are_apart() -> None:
    """Port 0 gives each its own address, and what one caches the other does not know."""
    options = SimulatorOptions(port=0, speed=0)
    body = {"prompt": "e" * 400, "max_tokens": 1}
    async with serving(options) as one, serving(options) as two, httpx.AsyncClient(timeout=60, verify=False) as client:
        replies = [(await client.post(f"{url}/v1/completions", json=body)).json() for url in (one, one, two)]

    assert one != two
    assert 3 == len({reply["id"] for reply in replies})
    assert [0, 96, 0] == [reply["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in replies]
    assert replies[0]["choices"] == replies[2]["choices"]


async def test_leaving_cuts_what_is_under_way() -> None:
    """Streams are cut at once, and the port is closed."""
    body = {"prompt": "x", "max_tokens": 500, "ignore_eos": True, "stream": True}
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        async with serving(SimulatorOptions(port=0)) as url:
            request = client.build_request("POST", f"{url}/v1/completions", json=body)
            reply = await client.send(request, stream=True)
            parts = reply.aiter_bytes()
            await anext(parts)
        with pytest.raises(httpx.TransportError):
            async for _ in parts:
                pass
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{url}/health")


async def test_a_port_in_use_is_an_error() -> None:
    """It is raised on entering, before anything is served."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        async with serving(SimulatorOptions(port=taken.getsockname()[1])):
            pass


async def test_a_sink_hears_of_prompt_and_answer() -> None:
    """Blocks come with their tokens and parent: first the prompt's, then those the answer fills."""
    sink = Writes()
    ids = list(range(100, 140))  # two full blocks of 16, and a half
    body = {"prompt": ids, "max_tokens": 9, "ignore_eos": True, "return_token_ids": True}
    async with (
        serving(SimulatorOptions(port=0, speed=0), sink=sink) as url,
        httpx.AsyncClient(timeout=60, verify=False) as client,
    ):
        reply = (await client.post(f"{url}/v1/completions", json=body)).json()
        await client.post(f"{url}/control/reset")
    prompt, answer, cleared = sink.heard

    assert (2, None, ids[:32]) == prompt
    assert (1, ids[32:] + reply["choices"][0]["token_ids"][:8]) == (answer[0], answer[2])
    assert isinstance(answer[1], int)
    assert ("cleared",) == cleared


async def test_the_fifo_timing_streams_as_well() -> None:
    """A token event per token, behind the same HTTP."""
    body = {"prompt": "x", "max_tokens": 5, "ignore_eos": True, "stream": True}
    async with (
        serving(SimulatorOptions(port=0, speed=0, timing="fifo")) as url,
        httpx.AsyncClient(timeout=60, verify=False) as client,
    ):
        reply = await client.post(f"{url}/v1/completions", json=body)

    assert 6 == reply.text.count("data: ")


@asynccontextmanager
async def program(**options: Any) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A worker that runs as a program, and its URL."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in options.items())
    code = (
        "from simulator.options import SimulatorOptions; from simulator.server import run; "
        f"run(SimulatorOptions(port=0, {arguments}))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("ready: http://127.0.0.1:")
    try:
        yield process, line.removeprefix("ready: ").strip()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.e2e
async def test_a_program_runs_until_it_is_reported_to_stop(number: signal.Signals) -> None:
    """One line reports the address; a signal ends it with status 0, also while a request runs."""
    body = {"prompt": "x", "max_tokens": 500, "ignore_eos": True, "stream": True}
    async with (
        program() as (process, url),
        httpx.AsyncClient(timeout=60, verify=False) as client,
        client.stream("POST", f"{url}/v1/completions", json=body) as reply,
    ):
        await anext(reply.aiter_bytes())
        process.send_signal(number)
        _, errors = await process.communicate()

    assert (0, b"") == (process.returncode, errors)


@pytest.mark.e2e
async def test_a_program_lets_finish_what_runs() -> None:
    """With a shutdown timeout a stream comes to its end; meanwhile health is fine and others are aborted."""
    body = {"prompt": "x", "max_tokens": 10, "ignore_eos": True}
    async with (
        program(shutdown_timeout_s=10.0, tpot_ms=50.0) as (process, url),
        httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client,
        client.stream("POST", "/v1/completions", json=body | {"stream": True}) as reply,
    ):
        parts = reply.aiter_bytes()
        got = await anext(parts)
        process.send_signal(signal.SIGTERM)
        other: dict[str, Any] = {"finish_reason": None}
        while other["finish_reason"] != "abort":  # until the signal has arrived
            other = (await client.post("/v1/completions", json=body | {"max_tokens": 1})).json()["choices"][0]
        health = await client.get("/health")
        async for part in parts:
            got += part
        _, errors = await process.communicate()

    assert (11, True) == (got.count(b"data: "), got.endswith(b"data: [DONE]\n\n"))
    assert ("", 200) == (other["text"], health.status_code)
    assert (0, b"") == (process.returncode, errors)


@pytest.mark.e2e
async def test_a_program_waits_no_longer_than_its_timeout() -> None:
    body = {"prompt": "x", "max_tokens": 500, "ignore_eos": True, "stream": True}
    async with program(shutdown_timeout_s=0.1) as (process, url), httpx.AsyncClient(timeout=60, verify=False) as client:
        async with client.stream("POST", f"{url}/v1/completions", json=body) as reply:
            parts = reply.aiter_bytes()
            await anext(parts)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(httpx.TransportError):
                async for _ in parts:
                    pass
        await process.wait()

    assert 0 == process.returncode
