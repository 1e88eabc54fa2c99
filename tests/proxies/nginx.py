"""A real nginx before the gateway."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.storage import free_port

_CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {http}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            {location}
        }}
    }}
}}
"""

DEFAULT = "proxy_pass http://127.0.0.1:{gateway};"
"""All that most people write."""
HOW_TO = """proxy_pass http://warmgate;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_read_timeout 600s;
            client_max_body_size 64m;
            proxy_request_buffering off;"""


@asynccontextmanager
async def nginx(gateway: int, *, location: str = DEFAULT) -> AsyncIterator[str]:
    """Its address; before the port *gateway*."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    assert program is not None, "nginx is not installed: make proxy-test does it"
    folder = Path(tempfile.mkdtemp(prefix="wg"))
    port = free_port()
    http = f"upstream warmgate {{ server 127.0.0.1:{gateway}; keepalive 64; }}"
    text = _CONFIGURATION.format(
        folder=folder, http=http, port=port, location=location.replace("{gateway}", str(gateway))
    )
    (folder / "nginx.conf").write_text(text)
    process = await asyncio.create_subprocess_exec(
        program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")
    )
    try:
        async with asyncio.timeout(20):
            while not await _listens(port):
                assert process.returncode is None, (folder / "error.log").read_text()
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
