"""Facts about what the gateway expects of any `OwnerStore`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cache_index import WorkerId
from gateway.models.response_affinity.owners import OwnerStore, ResponseOwner
from gateway.models.response_affinity.redis_owners import RedisOwners
from gateway.models.response_affinity.sqlite_owners import SqliteOwners
from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile
from tests.gateway.examples import Clock
from tests.storage import PATIENCE_S, RedisServer

BLUE = ResponseOwner("tiny", WorkerId("http://a"), "blue", "nickname")
RED = ResponseOwner("tiny", WorkerId("http://b"), "red")


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OwnerStore]:
    if request.param == "sqlite":
        file = SqliteFile(tmp_path / "db")
        yield SqliteOwners(file, lifetime_s=60, wall_clock=Clock())
        await file.aclose()
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        link = redis_link(server.url, timeout_s=PATIENCE_S)
        yield RedisOwners(link, lifetime_s=60)
        await link.aclose()


async def test_what_no_one_kept_is_not_there(store: OwnerStore) -> None:
    assert await store.find("a") is None


async def test_what_was_kept_is_found(store: OwnerStore) -> None:
    assert {} == await store.keep({"a": BLUE, "b": RED})
    assert (BLUE, RED, None) == (await store.find("a"), await store.find("b"), await store.find("c"))


async def test_who_comes_second_gets_the_first_owner(store: OwnerStore) -> None:
    await store.keep({"a": BLUE})

    assert {"a": BLUE} == await store.keep({"a": RED, "b": RED})
    assert (BLUE, RED) == (await store.find("a"), await store.find("b"))
