"""Connections of engines that dial the gateway; attacks on them are in tests/security/test_kv_event_port.py."""

import asyncio

import pytest

from gateway.workers.kv_events.connection import Link
from gateway.workers.kv_events.publisher_server import LOOPBACK, publisher_server
from tests.security.test_kv_event_port import GREETING, READY, Heard, listening, peer


async def test_a_message_is_read_and_then_the_end() -> None:
    """News of a connection come after all that it has sent."""
    async with listening() as heard:
        async with peer(heard, b"\x01\x01t\x00\x01x") as writer:
            await heard.until(lambda: heard.messages)
            writer.close()
        await heard.until(lambda: Link.DOWN in heard.links)

    assert ([Link.UP, Link.DOWN], [[b"t", b"x"]]) == (heard.links, heard.messages)


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:0", "tcp://localhost:0", "tcp://*:0"])
async def test_the_port_that_the_system_chose_is_known(endpoint: str) -> None:
    async with publisher_server(endpoint, allowed=LOOPBACK) as server:
        heard = Heard(server)
        _, writer = await asyncio.open_connection("127.0.0.1", int(server.bound.rpartition(":")[2]))
        writer.write(GREETING + READY)
        await heard.until(lambda: heard.links)
        writer.transport.abort()

    assert endpoint.rpartition(":")[0] == server.bound.rpartition(":")[0]


async def test_an_address_that_is_no_ones_cannot_be_bound() -> None:
    with pytest.raises(OSError, match=r"."):
        async with publisher_server("tcp://192.0.2.1:5557"):
            pass


async def test_a_unix_socket_is_guarded_by_its_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Peers have no address there; a socket that an earlier process left is replaced."""
    path = tmp_path_factory.mktemp("s") / "kv"
    for _ in range(2):
        async with publisher_server(f"ipc://{path}", allowed=()) as server:
            heard = Heard(server)
            _, writer = await asyncio.open_unix_connection(str(path))
            writer.write(GREETING + READY + b"\x00\x01x")
            await heard.until(lambda: heard.messages)  # noqa: B023  # called at once
            writer.transport.abort()
        assert [[b"x"]] == heard.messages


async def test_heartbeats_are_answered() -> None:
    """A publisher that sends them hears an answer to each, with its own context."""
    async with listening() as heard:
        host, port = heard.server.bound.removeprefix("tcp://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(GREETING + READY + b"\x04\x0b\x04PING\x00\x64beat" + b"\x04\x06\x05OTHER")
        await heard.until(lambda: heard.links)
        async with asyncio.timeout(60):
            while not (said := await reader.read(4096)).endswith(b"\x04\x09\x04PONGbeat"):
                assert said
                heard.read()
        writer.transport.abort()
