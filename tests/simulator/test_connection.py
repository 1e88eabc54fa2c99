import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from simulator.connection import Connection, ConnectionProtocol

Handler = Callable[[Connection, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client's end of a connection whose request is answered by *handler*."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await handler(scope["state"]["connection"], send)

    config = Config(app, http=ConnectionProtocol, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: ConnectionProtocol(config, state, set()), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    yield reader, writer
    writer.close()
    server.close()
    if state.tasks:
        await asyncio.wait(state.tasks)


async def test_a_reset_is_a_reset() -> None:
    """The client's socket fails with ECONNRESET, before any byte."""

    async def reset(connection: Connection, send: Any) -> None:
        connection.reset()
        await connection.wait_lost()

    async with served(reset) as (reader, _):
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_an_abort_lets_out_what_was_written() -> None:
    """The bytes arrive, the end of the body does not."""

    async def cut(connection: Connection, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        await connection.abort()
        await connection.wait_lost()

    async with served(cut) as (reader, _):
        got = await reader.read()

    assert got.endswith(b"x\r\n")
    assert 100_000 == got.count(b"x")


async def test_a_handler_hears_that_its_client_went() -> None:
    """At once, while it waits for something else."""
    listens, heard = asyncio.Event(), asyncio.Event()

    async def listen(connection: Connection, send: Any) -> None:
        connection.when_lost = heard.set
        listens.set()
        await heard.wait()
        assert connection.is_lost

    async with served(listen) as (_, writer):
        await asyncio.wait_for(listens.wait(), 60)
        sock: socket.socket = writer.get_extra_info("socket")
        assert sock.fileno() > 0
        writer.close()
        await asyncio.wait_for(heard.wait(), 60)


async def test_a_handler_waits_no_longer_than_it_wants() -> None:
    """The waiting side learns whether the client went meanwhile."""
    reported: list[bool] = []
    has_waited, done = asyncio.Event(), asyncio.Event()

    async def wait(connection: Connection, send: Any) -> None:
        reported.append(await connection.is_lost_within(0.01))
        has_waited.set()
        reported.append(await connection.is_lost_within(40))
        done.set()

    async with served(wait) as (_, writer):
        await asyncio.wait_for(has_waited.wait(), 60)
        writer.close()
        await asyncio.wait_for(done.wait(), 60)

    assert [False, True] == reported
