"""The gateway behind a real nginx and a real HAProxy: streams come event by event, and an open gateway is closed.

`make proxy-test` runs it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.stack import Stack, gateway
from tests.proxies.nginx import DEFAULT, HOW_TO, nginx
from tests.proxies.worker import COUNT, stepping
from tests.rolling.haproxy import NO_RETRIES, haproxy

TEAMS = [{"name": "blue", "keys": [{"id": "k1", "secret": "sk-blue"}]}]
KEY = {"authorization": "Bearer sk-blue"}
CHAT = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
PROXIES = {"nginx by default": DEFAULT, "nginx as in the how-to": HOW_TO, "haproxy": None}


@asynccontextmanager
async def before(running: Stack, proxy: str) -> AsyncIterator[str]:
    """The address of *proxy* before the gateway."""
    port = urlsplit(running.url).port
    assert port is not None
    location = PROXIES[proxy]
    if location is not None:
        async with nginx(port, location=location) as url:
            yield url
        return
    async with haproxy({"a": port}, retrying=[*NO_RETRIES, "option http-no-delay"], check_ms=200) as front:
        await front.until("a", is_up=True)
        yield front.url


@pytest.mark.parametrize("proxy", PROXIES)
async def test_the_events_of_a_stream_come_one_by_one(proxy: str) -> None:
    """The worker sends the next event when the one before it has come: what is held back would come never."""
    async with (
        stepping() as worker,
        gateway([worker.url], teams=TEAMS) as running,
        before(running, proxy) as url,
        asyncio.timeout(30),
        _asked(running, url, worker.next) as events,
    ):
        seen = 0
        async for event in events:
            if '"content":"' in event.replace(": ", ":") and "finish_reason" in event:
                seen += 1
                worker.next.release()
            if event == "data: [DONE]":
                break

        assert seen >= COUNT


@asynccontextmanager
async def _asked(running: Stack, url: str, first: asyncio.Semaphore) -> AsyncIterator[AsyncIterator[str]]:
    """The lines of a stream, of which the first event is on its way."""
    first.release()
    async with running.http.stream("POST", f"{url}/v1/chat/completions", json=CHAT, headers=KEY) as response:
        assert 200 == response.status_code
        yield response.aiter_lines()


@pytest.mark.parametrize(
    ("proxy", "host"),
    [("nginx by default", "127.0.0.1"), ("nginx as in the how-to", "a.example"), ("haproxy", "a.example")],
)
async def test_an_open_gateway_is_closed_behind_a_proxy(proxy: str, host: str) -> None:
    """Strangers would all come from this machine."""
    async with stepping() as worker, gateway([worker.url]) as running, before(running, proxy) as url:
        response = await running.http.get(f"{url}/v1/models", headers={"host": host})

        assert (403, "open_mode") == (response.status_code, response.json()["error"]["code"])


def test_the_how_to_is_what_is_tested() -> None:
    """Each line of nginx's location."""
    page = (Path(__file__).parents[2] / "docs/how-to/behind-a-proxy.md").read_text(encoding="utf-8")

    assert [] == [line.strip() for line in HOW_TO.splitlines() if line.strip() not in page]
