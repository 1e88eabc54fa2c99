"""What FastAPI does at the first use of a route happens before requests come."""

import subprocess
import sys
from textwrap import dedent

import pytest

from gateway.api.first_use import NOWHERE, used_once
from gateway.server.asgi import Message, Receive, Send

LATER = dedent(
    """
    import asyncio, sys
    from gateway.app.application import create_app
    from gateway.settings import build
    from tests.gateway.asgi import Caller, running

    read = []

    async def main():
        gateway = create_app(build({"models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}]}, {}))
        async with running(gateway):
            sys.addaudithook(lambda event, what: event == "open" and read.append(str(what[0])))
            for path in ("/healthz", "/readyz", "/metrics", "/v1/models"):
                await Caller(method="GET", path=path).call(gateway)
            read.append("end")

    asyncio.run(main())
    print(*(path for path in read[: read.index("end")] if path.endswith(".py")))
    """
)


async def test_an_application_is_asked_for_each_path_and_for_one_that_is_not_served() -> None:
    asked = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        asked.append((scope["method"], scope["path"], (await receive())["body"]))
        await send({"type": "http.response.start", "status": 404, "headers": []})

    await used_once(app, ["/healthz"])

    assert [("GET", "/healthz", b""), ("GET", NOWHERE, b"")] == asked


@pytest.mark.e2e
def test_after_the_start_no_probe_reads_sources() -> None:
    """In a process of its own: another test may have been the first."""
    ran = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, timeout=50, check=True)

    assert "" == ran.stdout.strip()
