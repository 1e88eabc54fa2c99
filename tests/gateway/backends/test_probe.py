"""Small questions to workers that may answer anything."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.backends.client import WorkerClient
from gateway.backends.probe import ANSWER_BYTES, WorkerProbe
from tests.fakes.engine import Answer, Drips, Floods, Garbage, Hangs, Page, fake_engine

ILL: list[Answer] = [
    Hangs(),
    Drips(),
    Garbage(),
    Garbage(b"\x00\xff\r\n\r\n"),
    Garbage(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort"),
    Garbage(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
    Garbage(b"HTTP/1.1 9999 OK\r\n\r\n"),
    Garbage(b"x" * 1_000_000),
]


@pytest.fixture
async def client() -> AsyncIterator[WorkerClient]:
    async with WorkerClient() as client:
        yield client


@pytest.mark.parametrize("status", [200, 301, 404, 503])
async def test_the_status_is_reported(client: WorkerClient, status: int) -> None:
    """Whatever it is; a redirect is not followed."""
    async with fake_engine({"/health": Page("ok", status)}) as engine:
        assert status == await WorkerProbe(client, engine.url, timeout_s=5.0).status("/health")


@pytest.mark.parametrize("ill", ILL)
async def test_an_ill_answer_is_not_one(client: WorkerClient, ill: Answer) -> None:
    """Neither a status nor a body; and it costs no longer than the timeout."""
    async with fake_engine({"/x": ill}) as engine:
        probe = WorkerProbe(client, engine.url, timeout_s=0.1)
        async with asyncio.timeout(60):  # without its own it would wait for ever
            assert (None, None) == (await probe.status("/x"), await probe.body("/x", max_bytes=1000))


async def test_no_one_there_is_not_one(client: WorkerClient) -> None:
    """The port is free again when the engine is gone."""
    async with fake_engine({}) as engine:
        probe = WorkerProbe(client, engine.url, timeout_s=5.0)

    assert await probe.status("/health") is None


async def test_a_flood_is_not_read(client: WorkerClient) -> None:
    """What comes is cut off at the limit; the rest stays where it is, but for what the network holds."""
    async with fake_engine({"/x": Floods()}) as engine:
        probe = WorkerProbe(client, engine.url, timeout_s=5.0)

        assert 100_000 == len(await probe.body("/x", max_bytes=100_000) or b"")
        assert 200 == await probe.status("/x")
        assert engine.sent < 40_000_000


async def test_the_body_of_a_success_alone_is_reported(client: WorkerClient) -> None:
    """An error page is not what was asked for."""
    pages = {"/good": Page("abc"), "/none": Page("oh", 404), "/empty": Page()}
    async with fake_engine(pages) as engine:
        probe = WorkerProbe(client, engine.url, timeout_s=5.0)

        assert [b"abc", None, b""] == [await probe.body(path, max_bytes=1000) for path in pages]


async def test_a_connection_is_used_again(client: WorkerClient) -> None:
    """Checks come every few seconds; each answer was read to its end."""
    async with fake_engine({"/health": Page("x" * (ANSWER_BYTES - 1))}) as engine:
        probe = WorkerProbe(client, engine.url, timeout_s=5.0)
        for _ in range(3):
            await probe.status("/health")

        assert 1 == engine.connections


async def test_nothing_packed_is_asked_for(client: WorkerClient) -> None:
    """A few bytes could unpack to gigabytes. The worker's own headers are sent."""
    async with fake_engine({"/health": Page()}) as engine:
        await WorkerProbe(client, engine.url, timeout_s=5.0, headers={"authorization": "Bearer k"}).status("/health")
        (head,) = engine.heads

    assert "\r\naccept-encoding: identity\r\n" in head
    assert "\r\nauthorization: bearer k\r\n" in head
