import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.backends.http_client import HttpClient


class Server:
    """Answers what it is asked when *answers*, else never."""

    def __init__(self) -> None:
        self.answers = False
        self.connections: set[Connection] = set()
        self.url = ""

    async def left(self) -> int:
        """Connections still open, a moment later."""
        for _ in range(200):
            if not self.connections:
                break
            await asyncio.sleep(0.005)
        return len(self.connections)


class Connection(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._server.answers and data.endswith(b"\r\n\r\n"):
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.get_running_loop().create_server(lambda: Connection(server), "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    yield server
    listening.close()
    for connection in list(server.connections):
        connection.transport.abort()


def pooled(client: httpx.AsyncClient) -> list[Any]:
    return list(client._transport._pool.connections)  # type: ignore[attr-defined]  # httpx has no public view of it


async def cancelled_after(turns: int, client: httpx.AsyncClient, url: str) -> None:
    call = asyncio.create_task(client.get(url))
    for _ in range(turns):
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()


async def test_it_answers_as_httpx_does(server: Server) -> None:
    """Two requests one after the other have their answers, over one connection."""
    server.answers = True
    async with HttpClient(trust_env=False) as client:
        assert ["hi", "hi"] == [(await client.get(server.url)).text for _ in range(2)]
        assert 1 == len(pooled(client))


async def test_httpx_keeps_a_connection_that_was_cancelled_as_it_opened(server: Server) -> None:
    """What this class is for: at one turn of the loop or another, httpx's own leaves a connection no one can use."""
    kept = []
    for turns in range(40):
        async with httpx.AsyncClient(trust_env=False) as client:
            await cancelled_after(turns, client, server.url)
            kept += pooled(client)

    assert kept


@pytest.mark.parametrize("turns", range(40))
async def test_a_request_cancelled_at_any_turn_leaves_no_connection(server: Server, turns: int) -> None:
    """Looking for a connection, opening it, taking it, sending and waiting: none stays in the pool, none open."""
    async with HttpClient(trust_env=False) as client:
        await cancelled_after(turns, client, server.url)

        assert [] == pooled(client)
        assert 0 == await server.left()


async def test_the_next_request_is_answered_after_one_was_cancelled(server: Server) -> None:
    """Also where a pool has room for one connection only."""
    async with HttpClient(trust_env=False, limits=httpx.Limits(max_connections=1)) as client:
        for turns in range(40):
            await cancelled_after(turns, client, server.url)
        server.answers = True

        assert "hi" == (await client.get(server.url)).text


async def test_a_request_cancelled_twice_leaves_no_connection(server: Server) -> None:
    """The second time while the first waits for the connection to be taken."""
    for turns in range(40):
        async with HttpClient(trust_env=False) as client:
            call = asyncio.create_task(client.get(server.url))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])

            assert 0 == await server.left()


async def test_an_answer_that_came_as_its_request_was_cancelled_is_closed(server: Server) -> None:
    """A stream that is cancelled at any turn of its answer gives its connection back or closes it."""
    server.answers = True
    for turns in range(60):
        async with HttpClient(trust_env=False) as client:
            call = asyncio.create_task(client.send(client.build_request("GET", server.url), stream=True))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            if not call.cancelled():
                await (await call).aclose()

            assert [] == [each for each in pooled(client) if not each.is_idle()]


async def test_faults_are_those_of_httpx() -> None:
    """No one listens: httpx's own error, from the caller's own await."""
    async with HttpClient(trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:1/")
