"""A port with and without TLS."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.picker import listener
from gateway.picker.certificate import self_signed_context
from gateway.picker.listener import Listener


class Echo(asyncio.Protocol):
    """Protocol object that sends back what it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)  # type: ignore[attr-defined]


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """Accept clients. Yield the port."""
    bound = socket.create_server(("127.0.0.1", 0))
    async with asyncio.TaskGroup() as tasks:
        there = Listener(bound, Echo, self_signed_context)
        there.start(tasks)
        yield bound.getsockname()[1]
        there.close()


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("context", [None, trusting()], ids=["plain", "TLS"])
async def test_a_client_may_use_tls(context: ssl.SSLContext | None) -> None:
    """All bytes arrive, with the first one."""
    async with listening() as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"PRI and more")
        said = await reader.readexactly(12)
        writer.close()

    assert b"PRI and more" == said


async def test_a_client_that_breaks_tls_does_not_disturb_others() -> None:
    """A client that leaves without a byte does not either, and one that is silent does not delay the stop."""
    async with listening() as port, asyncio.timeout(60):
        broken, silent, gone = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        broken[1].write(b"\x16 no TLS")
        gone[1].close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x")
        assert b"x" == await reader.readexactly(1)
        for _, each in (broken, silent):
            each.close()
        writer.close()


async def test_silent_clients_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_SILENT", 1)
    async with listening() as port, asyncio.timeout(60):
        silent = await asyncio.open_connection("127.0.0.1", port)
        refused = await asyncio.open_connection("127.0.0.1", port)
        assert b"" == await refused[0].read()
        silent[1].write(b"x")
        assert b"x" == await silent[0].readexactly(1)
        silent[1].close()
        refused[1].close()
