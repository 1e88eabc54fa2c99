"""Small questions to any worker by its address."""

import asyncio

import pytest

from gateway.backends.backend import Call
from gateway.backends.client import WorkerClient
from gateway.protocol.errors import ConnectFailed, UpstreamError
from tests.fakes.engine import Hangs, Page, fake_engine

HEALTH = Call(b"GET", b"/health", [], b"", streams=False, model="")


async def ask(client: WorkerClient, url: str) -> int:
    reply = await client.send(url, HEALTH)
    try:
        while await reply.read():
            pass
        return reply.status
    finally:
        await reply.aclose()


async def test_one_who_is_asked_again_is_asked_on_the_same_connection() -> None:
    """Also when somebody else was asked in between."""
    async with fake_engine({"/health": Page("a")}) as a, fake_engine({"/health": Page("b", 503)}) as b:
        async with WorkerClient() as client:
            found = [await ask(client, url) for url in (a.url, b.url, a.url)]

        assert ([200, 503, 200], 1, 1) == (found, a.connections, b.connections)


async def test_addresses_without_a_connection_are_forgotten() -> None:
    """Workers that were replaced leave nothing behind."""
    async with WorkerClient() as client:
        for port in range(1, 100):
            with pytest.raises(ConnectFailed):
                await client.send(f"http://127.0.0.1:{port}", HEALTH)

        assert 1 == len(client._workers)


async def test_a_question_under_way_keeps_its_address() -> None:
    """Another address that is asked meanwhile does not cut it off from the end of the client."""
    async with fake_engine({"/health": Hangs()}) as slow, fake_engine({"/health": Page()}) as quick:
        client = WorkerClient()
        hanging = asyncio.create_task(client.send(slow.url, HEALTH))
        await asyncio.sleep(0)
        assert 200 == await ask(client, quick.url)
        await client.aclose()

        with pytest.raises(UpstreamError):
            await hanging


async def test_an_address_that_cannot_be_a_workers_is_refused() -> None:
    """Before anything is sent."""
    async with WorkerClient() as client:
        with pytest.raises(ValueError, match="must start with http"):
            await client.send("ftp://worker", HEALTH)
