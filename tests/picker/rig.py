"""A real Envoy, real pickers and simulated workers, for tests that look at the picker from outside."""

import asyncio
import base64
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.governed import Administration
from tests.picker.configuration import BUFFER_BYTES, BodyMode, Pool, Tls, configuration
from tests.picker.envoy import Envoy, envoy

PATIENCE_S = 300.0
"""Seconds to wait for a state that a slow machine reaches late."""
DEFAULT_MODE: BodyMode = "FULL_DUPLEX_STREAMED"


@dataclass
class PickerProcess:
    """`warmgate picker` in a process of its own: its gRPC address, and the address of its HTTP server."""

    process: asyncio.subprocess.Process
    address: str
    http: httpx.AsyncClient
    errors: Path

    @property
    def admin(self) -> Administration:
        return Administration(self.http)

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def until_up(self, count: int) -> None:
        """Wait until *count* workers are up."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                text = (await self.http.get("/metrics")).text
                up = [line for line in text.splitlines() if line.startswith("warmgate_worker_up{")]
                if sum(line.endswith(" 1.0") for line in up) >= count:
                    return
                await asyncio.sleep(0.05)


@dataclass
class Rig:
    """An Envoy that callers use, with its pickers and workers."""

    url: str
    envoy: Envoy
    pickers: Sequence[PickerProcess]
    workers: Sequence[str]
    """Addresses of the workers: an IP address and a port each."""
    http: httpx.AsyncClient

    @property
    def picker(self) -> PickerProcess:
        return self.pickers[0]

    def openai(self, key: str = "sk-none") -> AsyncOpenAI:
        """Return a client of the SDK with the API key *key*."""
        return AsyncOpenAI(
            base_url=f"{self.url}/v1", api_key=key, max_retries=0, http_client=DefaultAsyncHttpxClient(verify=False)
        )

    async def chat(
        self, text: str = "hi", *, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> httpx.Response:
        body = {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": text}], **fields}
        return await self.http.post("/v1/chat/completions", json=body, headers=dict(headers or {}))

    async def served(self) -> dict[str, int]:
        """Return the number of requests whose whole body each worker has read, by the worker's address."""
        read = {worker: [each["prompt_tokens"] for each in await requests_of(worker)] for worker in self.workers}
        return {worker: sum(tokens is not None for tokens in each) for worker, each in read.items()}

    async def holders(self, text: str) -> list[str]:
        """Return the workers that got a request whose body contains *text*."""
        bodies = [(worker, each["body"]) for worker in self.workers for each in await requests_of(worker)]
        return [worker for worker, body in bodies if text in base64.b64decode(body).decode()]


async def requests_of(worker: str) -> list[dict[str, Any]]:
    """Return the requests that the worker at the address *worker* remembers."""
    async with httpx.AsyncClient(verify=False, timeout=PATIENCE_S) as http:
        requests: list[dict[str, Any]] = (await http.get(f"http://{worker}/control/requests")).json()["requests"]
        return requests


@asynccontextmanager
async def simulated(count: int, **options: Any) -> AsyncIterator[list[str]]:
    """Run *count* workers that answer as fast as they can; their addresses."""
    async with AsyncExitStack() as exits:
        urls = [
            await exits.enter_async_context(serving(SimulatorOptions(**{"port": 0, "speed": 0, **options})))
            for _ in range(count)
        ]
        yield [url.removeprefix("http://") for url in urls]


@asynccontextmanager
async def picker(
    folder: Path,
    workers: Sequence[str],
    *,
    name: str = "picker",
    model: Mapping[str, Any] | None = None,
    listen: str = "127.0.0.1:0",
    conformance: bool = False,
    max_buffered_bytes: int = BUFFER_BYTES,
    session_header_decides: bool = False,
    **groups: Any,
) -> AsyncIterator[PickerProcess]:
    """Run `warmgate picker` before *workers*. *groups* are settings beside the models."""
    entries = [{"id": worker, "url": f"http://{worker}"} for worker in workers]
    settings = {
        "models": [{"name": "tiny", "aliases": ["gpt-4o"], "workers": entries, **(model or {})}],
        "server": {"host": "127.0.0.1", "port": 0, "shutdown_grace_s": 5, "open_mode": "network"},
        "picker": {
            "listen": listen,
            "conformance": conformance,
            "max_buffered_bytes": max_buffered_bytes,
            "session_header_decides": session_header_decides,
        },
        # Workers share one loop with the test, and may be late; they are not down for that.
        "health": {"interval_s": 0.2, "timeout_s": 20, "metrics_interval_s": 0.5},
        **groups,
    }
    config = folder / f"{name}.yaml"
    config.write_text(yaml.safe_dump(settings))
    output, errors = folder / f"{name}.out", folder / f"{name}.err"
    command = [sys.executable, "-m", "gateway", "picker", "--config", str(config)]
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(*command, stdout=stdout, stderr=stderr, env=dict(os.environ))
    try:
        address = await _announced("picker", process, output, errors)
        url = await _announced("ready", process, output, errors)
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, verify=False) as http:
            running = PickerProcess(process, address, http, errors)
            await running.until_up(len(entries))
            yield running
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            assert 0 == await asyncio.wait_for(process.wait(), PATIENCE_S), errors.read_text()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def rig(
    folder: Path,
    count: int = 3,
    *,
    body_mode: BodyMode = DEFAULT_MODE,
    answer_mode: BodyMode | None = None,
    buffer_bytes: int = BUFFER_BYTES,
    is_open: bool = False,
    tls: Tls | None = None,
    options: Mapping[str, Any] | None = None,
    **groups: Any,
) -> AsyncIterator[Rig]:
    """Run Envoy before one picker and *count* simulated workers. *groups* are parameters of `picker`."""
    async with simulated(count, **(options or {})) as workers, picker(folder, workers, **groups) as one:
        pool = Pool(
            one.address,
            workers,
            body_mode=body_mode,
            answer_mode=answer_mode,
            buffer_bytes=buffer_bytes,
            is_open=is_open,
        )
        async with before([pool], [one], workers, tls=tls) as running:
            yield running


@asynccontextmanager
async def before(
    pools: Sequence[Pool], pickers: Sequence[PickerProcess], workers: Sequence[str], *, tls: Tls | None = None
) -> AsyncIterator[Rig]:
    """Run Envoy before *pools*, whose pickers and workers already run."""
    async with envoy(configuration(pools, tls=tls)) as running:
        url = f"{'http' if tls is None else 'https'}://{running.address}"
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, verify=False) as http:
            yield Rig(url, running, pickers, workers, http)


async def _announced(what: str, process: asyncio.subprocess.Process, output: Path, errors: Path) -> str:
    """Return the address that the process writes behind *what*, as soon as it does."""
    async with asyncio.timeout(PATIENCE_S):
        while (found := _behind(what, output)) is None:
            assert process.returncode is None, _text(errors)
            await asyncio.sleep(0.05)
        return found


def _behind(what: str, output: Path) -> str | None:
    lines = [line for line in _text(output).splitlines() if line.startswith(f"{what}: ")]
    return lines[0].removeprefix(f"{what}: ").strip() if lines else None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
