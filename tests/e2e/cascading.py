"""A gateway process whose models have fallbacks, and workers that die and come back, for tests of both."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess
from tests.e2e.governed import OWNER, bearer
from tests.e2e.stack import called_by_its_url, quick
from tests.fakes.bedrock import REGION

T = TypeVar("T")

CHAT = "/v1/chat/completions"
KEYS = {name: f"wg-{name}-5d0c1a6f4b7e49b2" for name in ("open", "own", "hurried")}
TEAMS: list[dict[str, Any]] = [
    {"name": "open"},
    {"name": "own", "fallback": False},
    {"name": "hurried", "ttft_s": 1.0},
]
GOVERNED: Mapping[str, Any] = {
    "admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]},
    "teams": [team | {"keys": [{"id": team["name"], "secret": KEYS[team["name"]]}]} for team in TEAMS],
}
PROMPTLY: Mapping[str, Any] = {
    "health": {"interval_s": 0.2, "timeout_s": 10, "metrics_interval_s": 0.5},
    "retry": {"wait_s": 0.2},
}


def chat(model: str, text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": text}], **more}


def on_bedrock(model_id: str, endpoint_url: str, **more: Any) -> dict[str, Any]:
    """An entry of `fallbacks`; its rates are whole at once unless *more* says otherwise."""
    return {
        "bedrock": {"model_id": model_id, "region": REGION, "endpoint_url": endpoint_url, "ramp_s": None, **more},
    }


def on_openai(url: str, **more: Any) -> dict[str, Any]:
    return {"openai": {"url": f"{url}/v1", "ramp_s": None, **more}}


def served_as_tiny(models: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "upstream_model": "tiny",
            **model,
            "workers": [called_by_its_url(each) for each in model["workers"]],
        }
        for model in models
    ]


@dataclass
class MortalWorker:
    """A simulated worker on the loop of the test; what kills it cuts its connections, and no one listens any more."""

    options: SimulatorOptions = field(default_factory=quick)
    url: str = ""
    """The same in every life."""
    _life: AsyncExitStack | None = None

    async def __aenter__(self) -> Self:
        await self.live()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.die()

    async def live(self) -> None:
        if self._life is None:
            life = AsyncExitStack()
            self.url = await life.enter_async_context(serving(self.options))
            port = urlsplit(self.url).port
            assert port is not None
            self.options = _at_port(self.options, port)
            self._life = life

    async def die(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            await life.aclose()


def _at_port(options: SimulatorOptions, port: int) -> SimulatorOptions:
    fields = {name: getattr(options, name) for name in SimulatorOptions.__slots__}
    return SimulatorOptions(**{**fields, "port": port})


@dataclass(frozen=True)
class Cascading:
    """A gateway process, and what is asked of it."""

    process: GatewayProcess

    async def ask(self, body: Mapping[str, Any], *, team: str = "open", **headers: str) -> httpx.Response:
        return await self.process.http.post(CHAT, json=body, headers=self.headers(team, headers))

    def headers(self, team: str = "open", more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Names of *more* may have _ for -."""
        return bearer(KEYS[team]) | {name.replace("_", "-"): value for name, value in (more or {}).items()}

    def sdk(self, team: str = "open") -> AsyncOpenAI:
        return sdk(self.process.url, KEYS[team])

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of *name* that have *labels*."""
        text = (await self.process.http.get("/metrics")).text
        lines = [line for line in text.splitlines() if line.startswith((name + "{", name + " "))]
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(each in line for each in wanted))

    async def line(self, request_id: str) -> dict[str, Any]:
        """The log line of a request, which is written a little later than its answer ends."""
        async with asyncio.timeout(60):
            while True:
                for line in self.process.output[0].read_text().splitlines():
                    if line.startswith("{") and (fields := json.loads(line))["request_id"] == request_id:
                        found: dict[str, Any] = fields
                        return found
                await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Returned:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: Any


async def post_once(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Returned:
    """Ask on a connection of its own: the pool of a client is slow where hundreds ask at once."""
    place, data = urlsplit(url), json.dumps(body).encode()
    own = {"host": place.netloc, "content-type": "application/json", "connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**own, "content-length": len(data), **headers}.items())
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            writer.write(f"POST {CHAT} HTTP/1.1\r\n{head}\r\n".encode() + data)
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            reported = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            answer = await reader.readexactly(int(reported["content-length"]))
        finally:
            writer.close()
    return Returned(int(first.split()[1]), reported, json.loads(answer))


def sdk(url: str, key: str) -> AsyncOpenAI:
    return AsyncOpenAI(
        base_url=f"{url}/v1", api_key=key, max_retries=0, http_client=DefaultAsyncHttpxClient(verify=False)
    )


async def until(ask: Callable[[], Awaitable[T]], reached: Callable[[T], bool], *, within_s: float = 60) -> T:
    async with asyncio.timeout(within_s):
        while not reached(found := await ask()):
            await asyncio.sleep(0.02)
    return found


async def all_up(gateway: Cascading, models: Iterable[str]) -> None:
    """Wait until health has found every worker of *models*."""
    for model in models:
        await until(lambda model=model: gateway.metric("warmgate_worker_up", model=model), lambda up: up >= 1.0)  # type: ignore[misc]


def measured(sentence: str) -> None:
    """For anyone who runs the tests with ``-s``."""
    sys.stdout.write(f"{sentence}\n")


def since(start: float) -> float:
    """Seconds from *start*, monotonic."""
    return time.monotonic() - start
