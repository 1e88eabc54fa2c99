"""Facts about the lines that one gateway has claimed."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from cache_index import WorkerId
from gateway.batch.claimed_lines import ClaimedLines
from gateway.batch.interruptions import Interrupted
from gateway.batch.line_store import BatchRef
from gateway.batch.sqlite_lines import SqliteLines
from gateway.storage.sqlite_file import MEMORY, SqliteFile

BATCH = BatchRef("blue", "batch_1")
LEASE_S = 30.0


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Claims:
    """Two gateways with one batch of four lines."""

    lines: SqliteLines
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.first, self.second = (
            ClaimedLines(self.lines, BATCH, owner, lease_s=LEASE_S, wall_clock=self.clock)
            for owner in ("first", "second")
        )


@pytest.fixture
async def claims() -> AsyncIterator[Claims]:
    file = SqliteFile(MEMORY)
    found = Claims(SqliteLines(file))
    await found.lines.begin(BATCH, 4)
    yield found
    await file.aclose()


async def test_lines_of_one_worker_are_neighbors(claims: Claims) -> None:
    """A claim of two lines serves two calls."""
    assert [0, 1] == [await claims.first.next("a", 2) for _ in range(2)]


async def test_each_line_is_claimed_once(claims: Claims) -> None:
    """Gateways divide the lines among themselves."""
    both = [await each.next("a", 1) for each in (claims.first, claims.second) for _ in range(2)]

    assert [0, 1, 2, 3] == sorted(each for each in both if each is not None)
    assert [None, None] == [await each.next("a", 1) for each in (claims.first, claims.second)]


async def test_claimed_lines_of_another_worker_are_taken_when_the_store_has_none(claims: Claims) -> None:
    """The other worker may be down by then."""
    assert 0 == await claims.first.next("a", 4)
    assert 1 == await claims.first.next("b", 4)


async def test_an_interrupted_line_is_the_next_one_of_its_worker(claims: Claims) -> None:
    """Its worker has computed the beginning of the prompt. The interruption is known once."""
    interrupted = Interrupted(WorkerId("a"), 512.0, 1)
    number = await claims.first.next("a", 2)
    assert number is not None
    claims.first.put_back(number, interrupted)

    assert number == await claims.first.next("a", 2)
    assert interrupted == claims.first.interruption(number)
    assert claims.first.interruption(number) is None


@pytest.mark.parametrize(("renews", "line"), [(True, None), (False, 0)])
async def test_only_renewed_claims_outlive_their_lease(claims: Claims, line: int | None, *, renews: bool) -> None:
    """Lines of a gateway that was killed run elsewhere."""
    assert 0 == await claims.first.next("a", 4)
    claims.clock.now += LEASE_S - 1
    if renews:
        await claims.first.renew()
    claims.clock.now += 2

    assert line == await claims.second.next("a", 1)


def test_a_line_follows_the_one_before_it_on_the_same_worker() -> None:
    """Prompts of neighbors begin alike."""
    lines = ClaimedLines(SqliteLines(SqliteFile(MEMORY)), BATCH, "first", lease_s=LEASE_S, wall_clock=Clock())

    assert [False, True, False, False] == [
        lines.follows(worker, number) for worker, number in (("a", 3), ("a", 4), ("b", 5), ("a", 6))
    ]
