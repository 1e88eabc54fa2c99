"""Every kind of key that Redis has, written and read again; the rest is in test_store.py."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.backup.redis_backup import BATCH, PAGE, RedisBackup
from gateway.storage.redis_link import redis_link
from gateway.tenancy.teams.redis_teams import IDENTITY, RedisTeamStore
from tests.storage import RedisServer, RedisServers, free_port

pytestmark = pytest.mark.redis
CLOCK = time.time  # Redis ends keys by its own
PATIENCE_S = 30.0


@pytest.fixture(params=["server", "cluster"])
async def backup(request: pytest.FixtureRequest, redis_servers: RedisServers) -> AsyncIterator[tuple[Any, RedisServer]]:
    server = redis_servers.make(port=free_port())
    if request.param == "cluster":
        server.start_cluster()
    else:
        server.start()
    url = f"{server.tcp_url}?cluster=true" if request.param == "cluster" else server.url
    link = redis_link(url, timeout_s=PATIENCE_S)
    await RedisTeamStore(link).initialize(None)
    yield RedisBackup(link, wall_clock=CLOCK), server
    await link.aclose()


def content(client: Any) -> dict[bytes, Any]:
    """What is there, as Redis writes it down, and whether it ends."""
    return {name: (client.dump(name), client.pttl(name) > 0) for name in client.keys("warmgate:*")}


async def test_every_kind_of_key_is_there_again(backup: tuple[RedisBackup, RedisServer], tmp_path: Path) -> None:
    """Bytes that are no text, scores to the last digit, long hashes and streams, and when keys end."""
    saved, server = backup
    with server.client() as client:
        client.set("warmgate:a", bytes(range(256)), px=100_000)
        client.hset("warmgate:h", mapping={b"\xff%d" % n: b"\x00%d" % n for n in range(2 * PAGE + 1)})
        client.sadd("warmgate:s", *(b"m%d" % n for n in range(500)))
        client.zadd("warmgate:z", {b"x": 1764000000.1234567, b"y": -0.1, b"z": 0.0})
        for n in range(2 * PAGE + 3):
            client.xadd("warmgate:x", {b"r": b"%d" % n, b"\xfe": b""}, id=f"{n + 1}-7")
        for n in range(BATCH + 1):
            client.set(f"warmgate:many:{n}", n)
        client.set("other:a", "not ours")
        before = content(client)
        await saved.write(tmp_path / "b", written_at="", with_pepper=True)
        client.set("warmgate:later", "x")
        await saved.clear()
        assert [b"other:a"] == client.keys("*")
        await saved.restore(tmp_path / "b", pepper=None)
        after = content(client)

    assert {name: ends for name, (_, ends) in before.items()} == {name: ends for name, (_, ends) in after.items()}
    differing = [name for name in before if before[name] != after[name]]
    with server.client() as client:
        # Sets and long hashes have no order; everything else is the same to the byte.
        assert set(differing) <= {b"warmgate:h", b"warmgate:s"}
        assert 2 * PAGE + 1 == client.hlen("warmgate:h")
        assert 500 == client.scard("warmgate:s")


async def test_what_ended_since_then_stays_away(backup: tuple[RedisBackup, RedisServer], tmp_path: Path) -> None:
    saved, server = backup
    with server.client() as client:
        client.set("warmgate:soon", "x", px=1)
        client.set("warmgate:replicas:default:key", "x")
        await saved.write(tmp_path / "b", written_at="", with_pepper=True)
        await saved.clear()
        await saved.restore(tmp_path / "b", pepper=None)

        assert 0 == client.exists("warmgate:soon")
        assert 1 == client.exists(IDENTITY)
        assert 1 == client.exists("warmgate:replicas:default:key"), "it was never removed"
