"""Facts about what the gateway expects of any `RecordStore`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.batch.records import Record, RecordStore
from gateway.batch.redis_records import RedisRecords
from gateway.batch.sqlite_records import SqliteRecords
from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile
from tests.storage import PATIENCE_S, RedisServer


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[RecordStore, RecordStore]]:
    """A store of files and one of batches, in one place."""
    if request.param == "sqlite":
        file = SqliteFile(tmp_path / "db")
        yield SqliteRecords(file, "file"), SqliteRecords(file, "batch")
        await file.aclose()
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        link = redis_link(server.url, timeout_s=PATIENCE_S)
        yield RedisRecords(link, "file"), RedisRecords(link, "batch")
        await link.aclose()


@pytest.fixture
def store(stores: tuple[RecordStore, RecordStore]) -> RecordStore:
    return stores[0]


def a_record(record_id: str, team: str = "blue", *, due_at: float = 100.5, size: int = 10) -> Record:
    return Record(record_id, team, due_at, size, b'{"a": "b c"}')


async def added(store: RecordStore, *records: Record) -> list[bool]:
    return [await store.add(record, max_count=3, max_size=100) for record in records]


async def ids(
    store: RecordStore, *, after: str | None = None, limit: int = 10, newest_first: bool = False
) -> list[str]:
    page = await store.page("blue", after=after, limit=limit, newest_first=newest_first)
    assert page is not None
    return [record.id for record in page]


async def test_an_added_record_is_found_as_it_is(store: RecordStore) -> None:
    await added(store, a_record("a"))

    assert a_record("a") == await store.find("blue", "a")


async def test_a_record_of_another_team_is_not_found(store: RecordStore) -> None:
    await added(store, a_record("a"))

    assert await store.find("red", "a") is None
    assert not await store.remove("red", "a")
    assert [] == await store.page("red", after=None, limit=10, newest_first=True)
    assert await store.page("red", after="a", limit=10, newest_first=True) is None


async def test_records_of_another_kind_are_apart(stores: tuple[RecordStore, RecordStore]) -> None:
    files, batches = stores
    await added(files, a_record("a"))

    assert await batches.find("blue", "a") is None
    assert [] == await batches.due(1000.0, 10)


async def test_a_record_that_exists_stays_as_it_is(store: RecordStore) -> None:
    await added(store, a_record("a", size=10))

    assert [True] == await added(store, a_record("a", size=95))
    assert a_record("a", size=10) == await store.find("blue", "a")


async def test_a_team_has_room_for_so_many_records(store: RecordStore) -> None:
    found = await added(store, *map(a_record, "abcd"), a_record("e", "red"))

    assert [True, True, True, False, True] == found


async def test_a_team_has_room_for_so_many_bytes(store: RecordStore) -> None:
    assert [True, False, True] == await added(
        store, a_record("a", size=60), a_record("b", size=41), a_record("c", size=40)
    )


async def test_removed_records_make_room(store: RecordStore) -> None:
    await added(store, a_record("a", size=60))

    assert await store.remove("blue", "a")
    assert not await store.remove("blue", "a")
    assert [True] == await added(store, a_record("b", size=100))
    assert await store.find("blue", "a") is None


async def test_pages_follow_the_order_of_arrival(store: RecordStore) -> None:
    await added(store, *map(a_record, "bca"))

    assert ["b", "c", "a"] == await ids(store)
    assert ["a", "c", "b"] == await ids(store, newest_first=True)
    assert ["b", "c"] == await ids(store, limit=2)


async def test_a_page_begins_after_a_record(store: RecordStore) -> None:
    await added(store, *map(a_record, "bca"))

    assert ["c", "a"] == await ids(store, after="b")
    assert ["b"] == await ids(store, after="c", newest_first=True)
    assert [] == await ids(store, after="a")
    assert await store.page("blue", after="x", limit=10, newest_first=False) is None


async def test_a_new_version_replaces_the_previous_one(store: RecordStore) -> None:
    await added(store, a_record("a"))
    second = a_record("a").changed(b'{"n":2}', due_at=7.25)

    assert await store.put(second)
    assert Record("a", "blue", 7.25, 10, b'{"n":2}', version=2) == await store.find("blue", "a")


async def test_a_write_of_an_outdated_version_changes_nothing(store: RecordStore) -> None:
    await added(store, a_record("a"))
    second = a_record("a").changed(b'{"n":2}')
    await store.put(second)

    assert not await store.put(a_record("a").changed(b'{"n":3}'))
    assert second == await store.find("blue", "a")
    await store.remove("blue", "a")
    assert not await store.put(second.changed(b'{"n":4}'))


async def test_only_one_of_several_writers_replaces_a_version(store: RecordStore) -> None:
    await added(store, a_record("a"))

    found = await asyncio.gather(*(store.put(a_record("a").changed(b'{"n":%d}' % n)) for n in range(5)))

    assert 1 == sum(found)


async def test_due_records_of_all_teams_are_found(store: RecordStore) -> None:
    await added(store, a_record("a", due_at=10.0), a_record("b", "red", due_at=20.0), a_record("c", due_at=30.0))

    assert {"a", "b"} == {record.id for record in await store.due(20.0, 10)}
    assert 1 == len(await store.due(20.0, 1))
    await store.remove("blue", "a")
    assert ["b"] == [record.id for record in await store.due(20.0, 10)]
