"""The console of the real program, on the admin port, over real sockets."""

import asyncio
import re
import time
from pathlib import Path

import httpx

from tests.e2e.gateway_process import gateway_process
from tests.storage import free_port

COOKIE = "__Host-warmgate-console"
SAME = {"sec-fetch-site": "same-origin"}


async def test_the_console_is_on_the_admin_port_and_its_streams_end_with_the_gateway(tmp_path: Path) -> None:
    """A page that is open does not hold the stop of the gateway up."""
    port = free_port()
    settings = {
        "server": {"port": 0, "shutdown_grace_s": 200},
        "models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:9"}]}],
        "admin": {"port": port, "keys": [{"id": "root", "role": "owner", "secret": "adm-0123456789"}]},
        "console": {"enabled": True},
    }
    async with (
        gateway_process(tmp_path, settings) as gateway,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
    ):
        assert 404 == (await gateway.http.get("/console")).status_code
        login = await http.post("/console/login", data={"key": "adm-0123456789"}, headers=SAME)
        found = re.search(rf"{COOKIE}=([^;]+)", login.headers["set-cookie"])
        assert found is not None
        # A client that is no browser keeps no secure cookie of http.
        headers = {"cookie": f"{COOKIE}={found[1]}"}
        page = await http.get("/console", headers=headers)
        assert (200, True) == (page.status_code, "Last 15 minutes" in page.text)
        foreign = await http.get("/console", headers={**headers, "host": "evil.example.com"})
        assert 421 == foreign.status_code

        live = {**headers, "accept": "text/event-stream"}
        async with http.stream("GET", "/console", headers=live) as stream:
            pieces = stream.aiter_text()
            assert (await anext(pieces)).startswith("event: part\n")
            began = time.monotonic()
            gateway.stop()
            async with asyncio.timeout(60):
                async for _ in pieces:
                    pass
        assert 0 == await gateway.end()
        assert time.monotonic() - began < 60
        assert found[1].encode() not in gateway.said()
        assert b"adm-0123456789" not in gateway.said()
