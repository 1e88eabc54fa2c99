"""Streams that fall silent, alone on their worker: what its engine generates decides whether they go on elsewhere."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from simulator.options import SimulatorOptions
from tests.e2e.stack import Stack, stack

CHAT = "/v1/chat/completions"
STALL_S = 1.0
TOKENS = 350
"""3.5 s of generating: longer than any silence here."""


def body(**more: Any) -> dict[str, Any]:
    prompt = {"model": "tiny", "messages": [{"role": "user", "content": "Tell me all"}]}
    return {**prompt, "max_tokens": TOKENS, "stream": True, "ignore_eos": True, **more}


def text_of(lines: list[str]) -> str:
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])


@asynccontextmanager
async def two_workers() -> AsyncIterator[tuple[Stack, str]]:
    """With the first words of every answer here. Both workers have streamed, so that their usual gaps are known."""
    options = SimulatorOptions(port=0, tpot_ms=10, blocks=1024)
    async with stack(2, options=options, model={"continuation": "tokens"}, advanced={"stall_s": STALL_S}) as served:
        said = set()
        for worker in served.workers:
            await served.fault(worker, "status", status=503, count=1)
            async with served.http.stream("POST", CHAT, json=body(max_tokens=60)) as reply:
                said.add(text_of([line async for line in reply.aiter_lines()]))
            await served.fault(worker, "none")
        yield served, said.pop()


async def asked(served: Stack, *, during: str | None = None) -> tuple[list[str], int]:
    """The lines of a stream, and how often another worker went on with it.

    *during* is the fault of its worker from its first line on.
    """
    async with served.http.stream("POST", CHAT, json=body()) as reply:
        pieces = reply.aiter_lines()
        lines = [await anext(pieces)]
        if during is not None:
            await served.fault(reply.headers["x-warmgate-worker"], during)
        lines += [line async for line in pieces]
    async with asyncio.timeout(60):
        while True:
            for line in map(json.loads, served.log.getvalue().splitlines()):
                if line.get("request_id") == reply.headers["x-request-id"]:
                    return lines, line["continued"]
            await asyncio.sleep(0.01)


async def test_a_stream_whose_engine_generates_is_left_where_it_is() -> None:
    """For more than twice `advanced.stall_s` nothing of it comes, as from a parser that holds back what it reads."""
    async with two_workers() as (served, said):
        for worker in served.workers:
            await served.fault(worker, "silent", after_tokens=5, seconds=2.5 * STALL_S)
        lines, continued = await asked(served)

    assert text_of(lines).startswith(said)
    assert "data: [DONE]" in lines
    assert 0 == continued


async def test_a_stream_whose_engine_is_stuck_goes_on_elsewhere() -> None:
    """Though its server answers, /health and /metrics as well."""
    async with two_workers() as (served, said):
        lines, continued = await asked(served, during="stuck")

    assert text_of(lines).startswith(said)
    assert "data: [DONE]" in lines
    assert 1 == continued
