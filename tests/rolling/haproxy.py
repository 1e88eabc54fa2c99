"""A real HAProxy before some gateways, and what it says of them."""

import asyncio
import csv
import io
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.storage import free_port

_CONFIGURATION = """
global
    maxconn 2000
    stats socket {folder}/s level operator

defaults
    mode http
    timeout connect 5s
    timeout client 120s
    timeout server 120s
    # Else the interval: on a busy machine both would be held to be down for an answer that comes late.
    timeout check 10s
    http-reuse always
    {retrying}

frontend clients
    bind 127.0.0.1:{port}
    default_backend gateways

backend gateways
    balance roundrobin
    option httpchk GET /readyz
    http-check expect status 200
    default-server check inter {check_ms}ms fall 1 rise 1
{servers}
"""

RETRIES = ("retries 3", "option redispatch 1", "retry-on conn-failure empty-response")
"""What an operator may let HAProxy do about requests that got no answer at all."""
NO_RETRIES = ("retries 0",)


@dataclass
class HAProxy:
    url: str
    _socket: Path

    async def statistics(self, server: str) -> Mapping[str, str]:
        """What it has counted of *server*, by the names of its CSV (its management guide, 9.1)."""
        reader, writer = await asyncio.open_unix_connection(self._socket)
        writer.write(b"show stat\n")
        text = (await reader.read()).decode().removeprefix("# ")
        writer.close()
        (row,) = [row for row in csv.DictReader(io.StringIO(text)) if row["svname"] == server]
        return row

    async def until(self, server: str, *, is_up: bool) -> None:
        """Wait until it holds *server* to be up, or not."""
        async with asyncio.timeout(30):
            while (await self.statistics(server))["status"].startswith("UP") != is_up:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def haproxy(servers: Mapping[str, int], *, retrying: Sequence[str], check_ms: int) -> AsyncIterator[HAProxy]:
    """Before *servers*, ports of this machine by name; it listens when this begins, and is killed at the end."""
    program = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    assert program is not None, "haproxy is not installed: make rolling-test does it"
    folder = Path(tempfile.mkdtemp(prefix="wg"))  # not tmp_path: the path of a unix socket has 108 bytes at most
    port = free_port()
    lines = "\n".join(f"    server {name} 127.0.0.1:{number}" for name, number in servers.items())
    configuration = _CONFIGURATION.format(
        folder=folder, port=port, retrying="\n    ".join(retrying), check_ms=check_ms, servers=lines
    )
    (folder / "haproxy.cfg").write_text(configuration)
    process = await asyncio.create_subprocess_exec(program, "-db", "-f", str(folder / "haproxy.cfg"))
    try:
        await _listens(process, port)
        yield HAProxy(f"http://127.0.0.1:{port}", folder / "s")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def _listens(process: asyncio.subprocess.Process, port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            assert process.returncode is None, "haproxy ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
