"""A real Envoy before workers, in a process of its own."""

import asyncio
import json
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.picker.environment import ENVOY


@dataclass
class Envoy:
    """A running Envoy, with the address of its administration and the file of its log."""

    process: asyncio.subprocess.Process
    admin: str
    log: Path

    async def drain(self) -> None:
        """Let running requests complete, refuse new connections, and end the process."""
        async with httpx.AsyncClient(verify=False) as client:
            await client.post(f"{self.admin}/drain_listeners?graceful")
        self.process.send_signal(signal.SIGTERM)
        await self.process.wait()

    async def counter(self, name: str) -> int:
        """Return the value of the counter *name*."""
        async with httpx.AsyncClient(verify=False) as client:
            text = (await client.get(f"{self.admin}/stats", params={"filter": f"^{name}$"})).text
        return int(text.rpartition(":")[2]) if ":" in text else 0


@asynccontextmanager
async def envoy(configuration: Mapping[str, Any]) -> AsyncIterator[Envoy]:
    """Run Envoy with *configuration* until the context ends."""
    assert ENVOY.exists(), "Envoy is not installed: make picker-test does it"
    folder = Path(tempfile.mkdtemp(prefix="wg"))
    file, log = folder / "envoy.json", folder / "envoy.log"
    file.write_text(json.dumps(configuration))
    admin = configuration["admin"]["address"]["socket_address"]
    arguments = ["-c", file, "--log-path", log, "--log-level", "warning", "--concurrency", "1", "--use-dynamic-base-id"]
    process = await asyncio.create_subprocess_exec(ENVOY, *map(str, arguments))
    running = Envoy(process, f"http://{admin['address']}:{admin['port_value']}", log)
    try:
        async with asyncio.timeout(60), httpx.AsyncClient(verify=False) as client:
            while not await _is_ready(client, running):
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def validate(file: Path) -> str:
    """Return what Envoy says against the configuration in *file*, or an empty string if it accepts the file."""
    arguments = ["--mode", "validate", "-c", str(file), "--use-dynamic-base-id"]
    process = await asyncio.create_subprocess_exec(
        ENVOY, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    return "" if process.returncode == 0 else said.decode()


async def _is_ready(client: httpx.AsyncClient, running: Envoy) -> bool:
    try:
        return (await client.get(f"{running.admin}/ready")).status_code == 200
    except httpx.TransportError:
        return False
