"""The real gateway and simulated workers over real sockets, for tests that look at the product from outside."""

import asyncio
import contextlib
import io
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from openai import AsyncOpenAI

from gateway.app.application import create_app
from gateway.app.mapping.surroundings import serving_options
from gateway.server.listener import bind
from gateway.server.on_uvicorn import uvicorn_config
from gateway.settings import build
from simulator.options import SimulatorOptions
from simulator.server import serving

HELD_KEY = "sk-the-callers-own-key"


@dataclass
class Stack:
    """A gateway with its workers, and clients for it."""

    url: str
    workers: list[str]
    http: httpx.AsyncClient
    openai: AsyncOpenAI
    log: io.BytesIO = field(repr=False)

    async def lines(self, count: int) -> list[dict[str, Any]]:
        """The log lines, once there are *count*: they are written a little later than the answers end."""
        async with asyncio.timeout(60):
            while len(written := self.log.getvalue().splitlines()) < count:
                await asyncio.sleep(0.01)
        return [json.loads(line) for line in written]

    async def metric(self, name: str) -> dict[str, float]:
        """The samples of one metric, by their labels as they stand in the exposition."""
        text = (await self.http.get("/metrics")).text
        found = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith((name + "{", name + " "))]
        return {labels.removeprefix(name): float(value) for labels, value in found}

    async def fault(self, worker: str, mode: str, **more: Any) -> None:
        """Make a worker misbehave."""
        response = await self.http.post(f"{worker}/control/faults", json={"mode": mode, **more})
        assert response.status_code == 200, response.text

    async def served(self, worker: str) -> list[dict[str, Any]]:
        requests: list[dict[str, Any]] = (await self.http.get(f"{worker}/control/requests")).json()["requests"]
        return requests


def called_by_its_url(worker: str | Mapping[str, Any]) -> dict[str, Any]:
    """An entry of `models[].workers`."""
    return {"id": worker, "url": worker} if isinstance(worker, str) else {"id": worker["url"], **worker}


@asynccontextmanager
async def gateway(
    workers: Sequence[str | Mapping[str, Any]], *, model: Mapping[str, Any] | None = None, **groups: Any
) -> AsyncIterator[Stack]:
    """The gateway before *workers*, on the running loop; *groups* are settings beside the models.

    The id of a worker is its url where none is given, so that a test can compare the two.
    """
    entries = [called_by_its_url(worker) for worker in workers]
    settings = build(
        {
            "models": [{"name": "tiny", "aliases": ["gpt-4o"], "workers": entries, **(model or {})}],
            # A worker that shares the loop with everybody else may be late, and is not down for that.
            "health": {"interval_s": 0.2, "timeout_s": 10, "metrics_interval_s": 0.5},
            "retry": {"wait_s": 0.2},  # for workers that a test has taken away
            **groups,
        },
        {},
    )
    log = io.BytesIO()
    server = uvicorn.Server(uvicorn_config(create_app(settings, log_sink=log), serving_options(settings)))
    with contextlib.closing(bind("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        serving_task = asyncio.ensure_future(server._serve([listener]))
        while not server.started:
            assert not serving_task.done(), "the gateway did not start"
            await asyncio.sleep(0.01)
        # Certificates are not loaded: there is no TLS here, and they take longer than a test.
        client = httpx.AsyncClient(base_url=url, timeout=60, verify=False, limits=httpx.Limits(max_connections=None))
        try:
            async with client:
                openai = AsyncOpenAI(base_url=f"{url}/v1", api_key=HELD_KEY, max_retries=0, http_client=_plain_client())
                async with openai:
                    yield Stack(url, [str(entry["url"]) for entry in entries], client, openai, log)
        finally:
            server.should_exit = True
            await serving_task


@asynccontextmanager
async def stack(
    count: int = 3, *, options: SimulatorOptions | None = None, model: Mapping[str, Any] | None = None, **groups: Any
) -> AsyncIterator[Stack]:
    """The gateway before *count* simulated workers, all on the running loop."""
    async with contextlib.AsyncExitStack() as exits:
        workers = [await exits.enter_async_context(serving(options or quick())) for _ in range(count)]
        yield await exits.enter_async_context(gateway(workers, model=model, **groups))


def quick(**changes: Any) -> SimulatorOptions:
    """A worker that answers as fast as it can."""
    return SimulatorOptions(**{"port": 0, "speed": 0, **changes})


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`python -m gateway` with *arguments*, and the address after its `ready:`; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process, await _ready(process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.communicate()


async def _ready(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    while line := (await asyncio.wait_for(process.stdout.readline(), 120)).decode():
        if line.startswith("ready: "):
            return line.removeprefix("ready: ").strip()
    raise AssertionError("the program ended before it was ready")


def _plain_client() -> Any:
    """The SDK's own HTTP client, without loading certificates."""
    from openai import DefaultAsyncHttpxClient

    return DefaultAsyncHttpxClient(verify=False)
