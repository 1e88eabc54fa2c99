"""A server waits for its connections when it stops."""

import asyncio

from gateway.picker.http2.open_connections import OpenConnections


class Held:
    """Connection that ends only when it is closed at once."""

    def __init__(self, connections: OpenConnections) -> None:
        self._connections = connections
        self.events: list[str] = []
        connections.add(self)

    def close_soon(self) -> None:
        self.events.append("asked")

    def close(self) -> None:
        self.events.append("closed")
        self._connections.discard(self)


async def test_a_connection_that_ends_in_time_is_not_closed() -> None:
    connections = OpenConnections()
    held = Held(connections)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(connections.close(60.0))
        await asyncio.sleep(0)
        connections.discard(held)

    assert ["asked"] == held.events


async def test_a_connection_that_does_not_end_is_closed() -> None:
    connections = OpenConnections()
    held = Held(connections)
    await connections.close(0.0)

    assert (["asked", "closed"], []) == (held.events, list(connections))


async def test_a_server_without_connections_stops_at_once() -> None:
    await OpenConnections().close(60.0)
