"""A server for a test, of a coroutine per connection."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[str]:
    """The URL of a server whose connections are left to *serve*. On leaving, all of them come to their end."""
    async with asyncio.TaskGroup() as connections:

        async def to_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await serve(reader, writer)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.create_task(to_the_end(reader, writer))

        async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
