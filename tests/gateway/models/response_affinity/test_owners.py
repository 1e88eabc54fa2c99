"""Owners of responses."""

import asyncio
from collections.abc import Mapping

import pytest

from cache_index import WorkerId
from gateway.models.response_affinity.owners import (
    MAX_UNWRITTEN,
    ResponseOwner,
    ResponseOwners,
    check_response_id,
    digest,
)
from gateway.protocol.errors import InvalidField, StoreUnavailable

OF_A = ResponseOwner("tiny", WorkerId("a"))
OF_B = ResponseOwner("tiny", WorkerId("b"))
OF_BLUE = ResponseOwner("tiny", WorkerId("a"), "blue")
OF_RED = ResponseOwner("tiny", WorkerId("b"), "red")


def test_what_was_remembered_is_found() -> None:
    """Only its id finds it; an unknown response has no owner."""
    owners = ResponseOwners()
    owners.remember("resp_1", OF_A)
    owners.remember("resp_2", OF_B)

    assert (OF_A, OF_B, None) == (owners.find("resp_1"), owners.find("resp_2"), owners.find("resp_3"))


def test_what_was_reported_first_counts() -> None:
    """An id that comes twice stays whose it was."""
    owners = ResponseOwners()
    owners.remember("resp_1", OF_A)
    owners.remember("resp_1", OF_B)

    assert OF_A == owners.find("resp_1")


def test_the_least_recently_used_are_forgotten() -> None:
    """To be remembered again, or found, is to be used."""
    owners = ResponseOwners(most=3)
    for response_id in ("resp_1", "resp_2", "resp_3"):
        owners.remember(response_id, OF_A)
    owners.remember("resp_1", OF_A)
    owners.find("resp_2")
    owners.remember("resp_4", OF_B)

    assert [True, True, False, True] == [owners.peek(f"resp_{i}") is not None for i in (1, 2, 3, 4)]


def test_a_peek_is_no_use() -> None:
    """Anyone who only explains changes nothing."""
    owners = ResponseOwners(most=2)
    owners.remember("resp_1", OF_A)
    owners.remember("resp_2", OF_A)

    assert OF_A == owners.peek("resp_1")
    assert owners.peek("resp_9") is None

    owners.remember("resp_3", OF_A)

    assert owners.peek("resp_1") is None


class Memory:
    """A store that may be away; implements `OwnerStore`."""

    def __init__(self) -> None:
        self.kept: dict[str, ResponseOwner] = {}
        self.is_away = False
        self.asked = 0

    async def find(self, digest: str) -> ResponseOwner | None:
        self._ask()
        return self.kept.get(digest)

    async def keep(self, owners: Mapping[str, ResponseOwner]) -> Mapping[str, ResponseOwner]:
        self._ask()
        earlier = {key: self.kept[key] for key in owners if key in self.kept}
        self.kept = {**owners, **self.kept}
        return earlier

    def _ask(self) -> None:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable("The store does not answer")


async def test_others_find_in_the_store_what_one_has_passed_on() -> None:
    """The next time it is known without asking."""
    store = Memory()
    one, other = ResponseOwners(store), ResponseOwners(store)
    one.remember("resp_1", OF_BLUE)
    await one.write()

    assert OF_BLUE == await other.look("resp_1")
    asked = store.asked
    assert OF_BLUE == await other.look("resp_1")
    assert asked == store.asked
    assert await other.look("resp_9") is None


async def test_what_the_store_says_stays_so() -> None:
    """The second gateway finds out when it writes."""
    store = Memory()
    one, other = ResponseOwners(store), ResponseOwners(store)
    one.remember("resp_1", OF_BLUE)
    other.remember("resp_1", OF_RED)
    await one.write()
    await other.write()

    assert OF_BLUE == other.find("resp_1")
    assert [OF_BLUE] == list(store.kept.values())


async def test_nothing_is_written_where_there_are_no_teams() -> None:
    """There is no one from whom it would have to be kept."""
    store = Memory()
    owners = ResponseOwners(store)
    owners.remember("resp_1", OF_A)
    await owners.write()

    assert {} == store.kept


async def test_what_a_store_that_is_away_misses_is_written_later() -> None:
    """It writes what there was room for."""
    store = Memory()
    owners = ResponseOwners(store)
    store.is_away = True
    for number in range(MAX_UNWRITTEN + 5):
        owners.remember(f"resp_{number}", OF_BLUE)
    with pytest.raises(StoreUnavailable):
        await owners.write()
    with pytest.raises(StoreUnavailable):
        await owners.look("resp_unknown")
    store.is_away = False
    await owners.write()

    assert MAX_UNWRITTEN == len(store.kept)
    assert await ResponseOwners(store).look("resp_0") is None
    assert OF_BLUE == await ResponseOwners(store).look("resp_5")


async def test_it_is_written_behind_the_requests() -> None:
    store = Memory()
    owners = ResponseOwners(store)
    running = asyncio.ensure_future(owners.run())
    owners.remember("resp_1", OF_BLUE)
    async with asyncio.timeout(60):
        while not store.kept:
            await asyncio.sleep(0)
    running.cancel()

    assert [digest("resp_1")] == list(store.kept)


@pytest.mark.parametrize("response_id", ["resp_1", "a.b:c~d-e", "_", "r" * 256])
def test_what_can_be_an_id(response_id: str) -> None:
    check_response_id(response_id, "response_id")


@pytest.mark.parametrize("response_id", ["", ".", "..", "a/b", "a b", "a\n", "a%2e", "\x00", "é", "r" * 257, "\ud800"])
def test_what_cannot(response_id: str) -> None:
    """It would be another path to a worker, or is too long."""
    with pytest.raises(InvalidField, match="'response_id' must be an id"):
        check_response_id(response_id, "response_id")
