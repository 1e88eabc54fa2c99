"""What the admin API expects of any `Claims`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.api.admin_v1.claims import Claim, Claims
from gateway.api.admin_v1.redis_claims import RedisClaims
from gateway.api.admin_v1.sqlite_claims import SqliteClaims
from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile
from tests.gateway.examples import Clock
from tests.storage import PATIENCE_S, RedisServer

ONE, OTHER = Claim("a", "one", "blue"), Claim("a", "other", "red")


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
async def claims(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Claims]:
    if request.param == "sqlite":
        file = SqliteFile(tmp_path / "db")
        yield SqliteClaims(file, wall_clock=Clock())
        await file.aclose()
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        link = redis_link(server.url, timeout_s=PATIENCE_S)
        yield RedisClaims(link)
        await link.aclose()


async def test_what_no_one_took_is_not_there(claims: Claims) -> None:
    assert await claims.find("a") is None


async def test_what_was_taken_is_found(claims: Claims) -> None:
    assert ONE == await claims.take(ONE)
    assert ONE == await claims.find("a")
    assert await claims.find("b") is None


async def test_who_comes_second_gets_the_first_claim(claims: Claims) -> None:
    await claims.take(ONE)

    assert ONE == await claims.take(OTHER)
    assert ONE == await claims.find("a")


async def test_of_many_at_once_one_is_kept(claims: Claims) -> None:
    taken = await asyncio.gather(*(claims.take(Claim("a", str(i), "blue")) for i in range(20)))

    assert 1 == len(set(taken))
    assert taken[0] == await claims.find("a")


async def test_what_was_released_can_be_taken_again(claims: Claims) -> None:
    await claims.take(ONE)
    await claims.release("a")

    assert await claims.find("a") is None
    assert OTHER == await claims.take(OTHER)


async def test_what_is_not_there_can_be_released(claims: Claims) -> None:
    await claims.release("a")

    assert await claims.find("a") is None
