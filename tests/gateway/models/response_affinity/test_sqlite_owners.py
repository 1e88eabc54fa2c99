"""Owners in a file: what the contract (tests/contracts/test_owner_store.py) does not say."""

from pathlib import Path

from cache_index import WorkerId
from gateway.models.response_affinity.owners import ResponseOwner
from gateway.models.response_affinity.sqlite_owners import SqliteOwners
from gateway.storage.sqlite_file import SqliteFile
from tests.gateway.examples import Clock

BLUE = ResponseOwner("tiny", WorkerId("a"), "blue")


async def test_they_end_with_the_response(tmp_path: Path) -> None:
    """Then another may have the id."""
    file, clock = SqliteFile(tmp_path / "db"), Clock()
    owners = SqliteOwners(file, lifetime_s=60, wall_clock=clock)
    await owners.keep({"a": BLUE})
    clock.now += 60

    assert await owners.find("a") is None
    assert {} == await owners.keep({"a": BLUE})
    await file.aclose()


async def test_there_are_only_so_many(tmp_path: Path) -> None:
    """The oldest go."""
    file = SqliteFile(tmp_path / "db")
    owners = SqliteOwners(file, lifetime_s=60, wall_clock=Clock(), most=2)
    await owners.keep({"a": BLUE, "b": BLUE, "c": BLUE})

    assert (None, BLUE, BLUE) == (await owners.find("a"), await owners.find("b"), await owners.find("c"))
    await file.aclose()


async def test_they_survive_the_process(tmp_path: Path) -> None:
    for _ in range(2):
        file = SqliteFile(tmp_path / "db")
        owners = SqliteOwners(file, lifetime_s=60, wall_clock=Clock())
        found = await owners.find("a")
        await owners.keep({"a": BLUE})
        await file.aclose()

    assert BLUE == found
