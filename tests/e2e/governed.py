"""A gateway with teams over real sockets, and what its administrator does: for tests that look at limits from outside.

Teams and keys are made by the admin API, so each test has its own in one gateway that all tests of a file share.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from simulator.options import SimulatorOptions
from tests.e2e.stack import Stack, stack

OWNER = "owner-of-the-tests-6f1c0a9d"
PRICE = {"input_usd": 10.0, "cached_input_usd": 1.0, "output_usd": 30.0}
"""US dollars per million tokens."""
GATEWAY: Mapping[str, Any] = {
    "admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]},
    "teams": [{"name": "declared"}],  # with none, everybody on this machine may ask
}


@dataclass(frozen=True)
class MadeKey:
    id: str
    team: str
    secret: str

    @property
    def headers(self) -> dict[str, str]:
        return bearer(self.secret)


@dataclass(frozen=True)
class Administration:
    """The admin API of the gateway that *http* asks."""

    http: httpx.AsyncClient

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> httpx.Response:
        return await self.http.request(
            method, f"/admin/v1{path}", json=body, params=query or None, headers=bearer(OWNER)
        )

    async def done(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The answer, which is no refusal."""
        response = await self.ask(method, path, body, **query)
        assert response.is_success, response.text
        return response.json() if response.content else None

    async def team(self, name: str | None = None, **fields: Any) -> str:
        """Make one; its name."""
        name = name or f"team-{secrets.token_hex(4)}"
        await self.done("POST", "/teams", {"name": name, **fields})
        return name

    async def key(self, team: str | None = None, **fields: Any) -> MadeKey:
        """Make one, in a new team unless there is one."""
        made = await self.done("POST", "/keys", {"team": team or await self.team(), **fields})
        return MadeKey(made["id"], made["team"], made["secret"])

    async def limited(self, **limits: float) -> MadeKey:
        """The key of a team with *limits*."""
        return await self.key(await self.team(limits=limits))

    async def records(self, team: str, least: int = 1) -> list[dict[str, Any]]:
        """The ledger of *team*, oldest first, as soon as it has so many lines: they are booked behind the answers."""
        async with asyncio.timeout(60):
            while True:
                page = await self.done("GET", "/usage/records", team=team, limit=1000)
                if len(page["data"]) >= least:
                    return list(reversed(page["data"]))
                await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Sent:
    """One request that a client has sent, and its answer."""

    at: float
    """Monotonic seconds, when it was sent."""
    answered: float
    status: int
    headers: httpx.Headers


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def chat(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": text}], **more}


def administration(served: Stack) -> Administration:
    return Administration(served.http)


@asynccontextmanager
async def governed(
    workers: int = 2, *, options: SimulatorOptions | None = None, model: Mapping[str, Any] | None = None, **groups: Any
) -> AsyncIterator[Stack]:
    """The gateway with an owner, and prices."""
    async with stack(
        workers, options=options, model={"price": PRICE, **(model or {})}, **{**GATEWAY, **groups}
    ) as served:
        yield served


@asynccontextmanager
async def sdk(
    url: str, secret: str, *, max_retries: int = 0, timeout_s: float = 60
) -> AsyncIterator[tuple[AsyncOpenAI, list[Sent]]]:
    """The OpenAI SDK with a key, and all that it has sent."""
    sent: list[Sent] = []

    async def note_request(request: httpx.Request) -> None:
        request.extensions["sent_at"] = time.monotonic()

    async def note_response(response: httpx.Response) -> None:
        at = response.request.extensions["sent_at"]
        sent.append(Sent(at, time.monotonic(), response.status_code, response.headers))

    hooks: dict[str, list[Any]] = {"request": [note_request], "response": [note_response]}
    http = DefaultAsyncHttpxClient(verify=False, event_hooks=hooks)
    client = AsyncOpenAI(
        base_url=f"{url}/v1", api_key=secret, max_retries=max_retries, http_client=http, timeout=timeout_s
    )
    async with client:
        yield client, sent
