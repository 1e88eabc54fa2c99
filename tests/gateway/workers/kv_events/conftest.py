"""Everything about sockets holds on both event loops: asyncio's own and uvloop, which production uses."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
import zmq.asyncio


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def context() -> AsyncIterator[zmq.asyncio.Context]:
    """One of our own, and at the end no socket of it is open: else it would not end."""
    context = zmq.asyncio.Context()
    yield context
    async with asyncio.timeout(60):
        await asyncio.to_thread(context.term)
