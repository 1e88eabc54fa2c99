"""`warmgate serve` in a process of its own, with everything that it says kept."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from gateway.app.mapping.tenancy import store_rules
from gateway.app.stores import initialize
from gateway.protocol.errors import StoreUnavailable
from gateway.settings import build
from tests.e2e.governed import Administration


@dataclass
class GatewayProcess:
    """A gateway, the file that it follows, and what it has written on stdout and stderr."""

    process: asyncio.subprocess.Process
    url: str
    http: httpx.AsyncClient
    config: Path
    output: tuple[Path, Path]
    has_ended: bool = False
    """Anyone who has seen to its end says so."""

    @property
    def admin(self) -> Administration:
        return Administration(self.http)

    def said(self) -> bytes:
        """All of it, up to now."""
        return b"\n".join(path.read_bytes() for path in self.output)

    def configure(self, settings: Mapping[str, Any] | str) -> None:
        """Write the file as an editor does: another one, renamed over it. A text is written as it is."""
        _write(self.config, settings)

    async def reload(self, outcome: str = "applied") -> None:
        """Send SIGHUP, and wait until one more reload has had this *outcome*."""
        before = await self._reloads(outcome)
        self.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(60):
            while await self._reloads(outcome) == before:
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        self.process.kill()
        await self.end()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask for the end, and go on."""
        self.process.send_signal(number)

    async def end(self) -> int:
        """Wait for it; the exit code."""
        self.has_ended = True
        return await asyncio.wait_for(self.process.wait(), 60)

    async def metric(self, name: str) -> float:
        """The value of a metric with all its labels, as they stand in the exposition; 0 if it is not there."""
        for line in (await self.http.get("/metrics")).text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    async def _reloads(self, outcome: str) -> float:
        return await self.metric(f'warmgate_config_reloads_total{{outcome="{outcome}"}}')


@asynccontextmanager
async def gateway_process(
    folder: Path,
    settings: Mapping[str, Any],
    *,
    name: str = "gateway",
    variables: Mapping[str, str] | None = None,
    initializes: bool = True,
    options: Sequence[str] = (),
) -> AsyncIterator[GatewayProcess]:
    """Start it, and stop it in peace at the end. *variables* are beside those of the test.

    With *initializes* a store in Redis is initialized before.
    """
    config = folder / f"{name}.yaml"
    _write(config, settings)
    if initializes:
        await _initialize(settings, variables or {})
    output = folder / f"{name}.out", folder / f"{name}.err"
    command = [sys.executable, "-m", "gateway", "serve", "--config", str(config), *options]
    with output[0].open("wb") as stdout, output[1].open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=stdout, stderr=stderr, env=os.environ | dict(variables or {})
        )
    try:
        url = await _ready(process, output)
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as http:
            started = GatewayProcess(process, url, http, config, output)
            yield started
        if not started.has_ended:
            process.send_signal(signal.SIGTERM)
            assert 0 == await asyncio.wait_for(process.wait(), 60), output[1].read_text()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def replicas(folder: Path, settings: Mapping[str, Any]) -> AsyncIterator[tuple[GatewayProcess, GatewayProcess]]:
    """Two, with the same settings."""
    async with AsyncExitStack() as exits:
        starting = [gateway_process(folder, settings, name=name) for name in "ab"]
        # Each start takes seconds, most of them imports.
        first, second = await asyncio.gather(*(exits.enter_async_context(each) for each in starting))
        yield first, second


async def _ready(process: asyncio.subprocess.Process, output: tuple[Path, Path]) -> str:
    async with asyncio.timeout(120):
        while True:
            for line in output[0].read_text().splitlines():
                if line.startswith("ready: "):
                    return line.removeprefix("ready: ").strip()
                if line.startswith("{") and (reported := json.loads(line))["event"] == "ready":
                    return str(reported["address"])
            assert process.returncode is None, output[1].read_text()
            await asyncio.sleep(0.02)


async def _initialize(settings: Mapping[str, Any], variables: Mapping[str, str]) -> None:
    """What an operator does once: `warmgate store init`. A store that is away is found later."""
    with suppress(StoreUnavailable):
        await initialize(store_rules(build(dict(settings), {**os.environ, **variables})), wall_clock=time.time)


def _write(path: Path, settings: Mapping[str, Any] | str) -> None:
    other = path.with_suffix(".new")
    other.write_text(settings if isinstance(settings, str) else yaml.safe_dump(dict(settings)))
    other.rename(path)
