"""The console of the real program, on the admin port, over real sockets."""

import asyncio
import re
import time
from pathlib import Path
from urllib.parse import quote

import httpx

from tests.e2e.gateway_process import gateway_process
from tests.e2e.stack import stack
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


async def test_the_page_of_a_request_opens_whatever_slashes_its_id_has() -> None:
    """On the port of the gateway, all other paths lose their doubled and trailing slashes."""
    names = ("/jobs/7", "jobs//7/", "a/../b")
    async with stack(
        1, admin={"keys": [{"role": "viewer", "secret": "adm-0123456789"}]}, console={"enabled": True}
    ) as served:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
        for name in names:
            answer = await served.http.post("/v1/chat/completions", json=body, headers={"x-request-id": name})
            assert 200 == answer.status_code
        login = await served.http.post("/console/login", data={"key": "adm-0123456789"}, headers=SAME)
        found = re.search(rf"{COOKIE}=([^;]+)", login.headers["set-cookie"])
        assert found is not None
        headers = {"cookie": f"{COOKIE}={found[1]}"}
        pages = [await served.http.get(f"/console/requests/{quote(name, safe='')}", headers=headers) for name in names]
        front = await served.http.get("/console/", headers=headers, follow_redirects=True)

    assert [200, 200, 200] == [page.status_code for page in pages]
    assert all(f'<span class="mono">{name}</span>' in page.text for name, page in zip(names, pages, strict=True))
    assert 200 == front.status_code
