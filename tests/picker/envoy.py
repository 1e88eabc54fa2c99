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

WAIT_S = 300.0
"""Seconds to wait for an Envoy on a slow machine."""


@dataclass
class Envoy:
    """A running Envoy: the address and port of its listener, the URL of its administration, and the file of its log."""

    process: asyncio.subprocess.Process
    address: str
    admin: str
    log: Path

    async def drain(self) -> None:
        """Let running requests complete, refuse new connections, and end the process."""
        async with httpx.AsyncClient(verify=False, timeout=WAIT_S) as client:
            await client.post(f"{self.admin}/drain_listeners?graceful")
        self.process.send_signal(signal.SIGTERM)
        await self.process.wait()

    async def counter(self, name: str) -> int:
        """Return the value of the counter *name*."""
        async with httpx.AsyncClient(verify=False, timeout=WAIT_S) as client:
            text = (await client.get(f"{self.admin}/stats", params={"filter": f"^{name}$"})).text
        return int(text.rpartition(":")[2]) if ":" in text else 0


@asynccontextmanager
async def envoy(configuration: Mapping[str, Any]) -> AsyncIterator[Envoy]:
    """Run Envoy with *configuration* until the context ends."""
    assert ENVOY.exists(), "Envoy is not installed: make picker-test does it"
    folder = Path(tempfile.mkdtemp(prefix="wg"))
    file, log, admin = folder / "envoy.json", folder / "envoy.log", folder / "admin"
    file.write_text(json.dumps(configuration))
    arguments = [
        "-c",
        file,
        "--log-path",
        log,
        "--admin-address-path",
        admin,
        "--log-level",
        "warning",
        "--concurrency",
        "1",
        "--use-dynamic-base-id",
    ]
    process = await asyncio.create_subprocess_exec(ENVOY, *map(str, arguments))
    try:
        async with asyncio.timeout(WAIT_S), httpx.AsyncClient(verify=False, timeout=WAIT_S) as client:
            while (address := await _listener(client, admin)) is None:
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        yield Envoy(process, address, f"http://{admin.read_text()}", log)
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
    said, _ = await asyncio.wait_for(process.communicate(), WAIT_S)
    return "" if process.returncode == 0 else said.decode()


async def _listener(client: httpx.AsyncClient, admin: Path) -> str | None:
    """Return the address of the listener as soon as it is ready. The file *admin* has the address to ask."""
    address = _text(admin)
    if not address:
        return None
    try:
        if (await client.get(f"http://{address}/ready")).status_code != 200:
            return None
        listeners = (await client.get(f"http://{address}/listeners", params={"format": "json"})).json()
    except httpx.TransportError:
        return None
    socket = listeners["listener_statuses"][0]["local_address"]["socket_address"]
    return f"{socket['address']}:{socket['port_value']}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
