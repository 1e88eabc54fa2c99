"""Connections of a server that are open."""

import asyncio
from collections.abc import Iterator
from typing import Protocol


class Closable(Protocol):
    """Connection, as far as the server that stops needs it."""

    def close_soon(self) -> None:
        """Close the connection after its last call has ended."""
        ...

    def close(self) -> None:
        """Close the connection and end its calls."""
        ...


class OpenConnections:
    """Set of open connections."""

    def __init__(self) -> None:
        self._open: set[Closable] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __iter__(self) -> Iterator[Closable]:
        return iter(self._open)

    def add(self, connection: Closable) -> None:
        """Note that *connection* was opened."""
        self._open.add(connection)
        self._empty.clear()

    def discard(self, connection: Closable) -> None:
        """Note that *connection* was closed."""
        self._open.discard(connection)
        if not self._open:
            self._empty.set()

    async def close(self, grace_s: float) -> None:
        """Close all connections as soon as their calls have ended, at the latest after *grace_s* seconds."""
        for connection in list(self._open):
            connection.close_soon()
        try:
            async with asyncio.timeout(grace_s):
                await self._empty.wait()
        except TimeoutError:
            for connection in list(self._open):
                connection.close()
        await self._empty.wait()
