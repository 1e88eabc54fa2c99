"""Simulated prefill and decode workers behind the gateway, each of which a test can end."""

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from simulator.roles import HalfOptions, RoleName
from simulator.server import serving
from tests.e2e.stack import Stack, gateway, quick

LONG = " ".join(f"word {number}" for number in range(600))
"""2,526 tokens in a chat."""


@dataclass(frozen=True)
class Divided:
    """The gateway and its workers, in the order of their roles."""

    stack: Stack
    lives: Sequence[AsyncExitStack]

    @property
    def workers(self) -> list[str]:
        return self.stack.workers

    async def end(self, number: int) -> None:
        await self.lives[number].aclose()

    async def ask(self, prompt: str = LONG, *, max_tokens: int = 8, **more: Any) -> httpx.Response:
        messages = [{"role": "user", "content": prompt}]
        body = {"model": "tiny", "messages": messages, "max_tokens": max_tokens, **more}
        return await self.stack.http.post("/v1/chat/completions", json=body)

    async def states(self, number: int) -> list[str]:
        """Return the outcomes of the requests to that worker."""
        return [request["state"] for request in await self.stack.served(self.workers[number])]


@asynccontextmanager
async def divided(
    *roles: RoleName,
    flow: str = "nixl",
    reported: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    groups: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Divided]:
    """A gateway before workers of *roles*; *reported* are its settings of disaggregation, *options* to the workers;
    *groups* are other settings."""
    dialect = "vllm" if flow == "nixl" else "sglang"
    async with AsyncExitStack() as exits:
        lives, workers = [], []
        for role in roles:
            life = await exits.enter_async_context(AsyncExitStack())
            half = HalfOptions(lease_s=20)
            worker = quick(**{"role": role, "dialect": dialect, "health_delay_s": 0, "half": half, **options})
            url = await life.enter_async_context(serving(worker))
            lives.append(life)
            is_met = flow == "sglang" and role == "prefill"
            meets = {"bootstrap_port": await bootstrap_port(url)} if is_met else {}
            workers.append({"url": url, "role": role, **meets})
        settings = {"disaggregation": {"flow": flow, **(reported or {})}, **(model or {})}
        yield Divided(await exits.enter_async_context(gateway(workers, model=settings, **(groups or {}))), lives)


async def bootstrap_port(url: str) -> int:
    """Where a prefill worker of SGLang's is met."""
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        return int((await client.get(f"{url}/server_info")).json()["disaggregation_bootstrap_port"])


def body_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON that a worker was sent, of an entry of its journal."""
    body: dict[str, Any] = json.loads(base64.b64decode(request["body"]))
    return body


def reported_by_stream(text: str) -> tuple[str, dict[str, Any]]:
    """The words of a stream of chunks, and its usage."""
    chunks = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {")]
    words = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    return words, next((chunk["usage"] for chunk in reversed(chunks) if chunk.get("usage")), {})
