"""Facts about what the gateway expects of any `LineStore`."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.batch.line_store import LineResult, LineStore, Progress
from gateway.batch.ranges import NO_WORKER, LineRange, LineRanges
from gateway.batch.redis_lines import RedisLines
from gateway.batch.sqlite_lines import SqliteLines
from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile
from tests.storage import PATIENCE_S, RedisServer

OK = LineResult("part", 10, 20, ok=True, prompt_tokens=5, cached_tokens=4, completion_tokens=3, reasoning_tokens=2)
FAILED = LineResult("part", 0, 1, ok=False)


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LineStore]:
    """Has the batch ``b`` with ten lines."""
    if request.param == "sqlite":
        file = SqliteFile(tmp_path / "db")
        found: LineStore = SqliteLines(file)
        await found.begin("b", 10)
        yield found
        await file.aclose()
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        link = redis_link(server.url, timeout_s=PATIENCE_S)
        found = RedisLines(link)
        await found.begin("b", 10)
        yield found
        await link.aclose()


async def claimed(store: LineStore, owner: str, count: int, *, now: float = 0.0, until: float = 30.0) -> list[int]:
    return await store.claim("b", owner, count, now=now, until=until)


async def test_lines_are_claimed_in_order_and_once(store: LineStore) -> None:
    assert [0, 1, 2] == await claimed(store, "x", 3)
    assert [3, 4, 5, 6] == await claimed(store, "y", 4)
    assert [7, 8, 9] == await claimed(store, "x", 4)
    assert [] == await claimed(store, "y", 4)


async def test_each_worker_has_a_range_of_lines(store: LineStore) -> None:
    """A worker without a range takes the second half of the largest one."""

    async def lines(worker: str, count: int) -> list[int]:
        return await store.claim("b", "x", count, now=0.0, until=30.0, worker=worker)

    assert [[0, 1], [6], [4], [2, 3], [7, 8], [5], [9], []] == [
        await lines(worker, count)
        for worker, count in [("a", 2), ("b", 1), ("c", 1), ("a", 4), ("b", 2), ("a", 3), ("a", 3), ("c", 1)]
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_lines_are_divided_as_ranges_are(store: LineStore, seed: int) -> None:
    rng, ranges = random.Random(seed), LineRanges([LineRange(NO_WORKER, 0, 200)])
    await store.begin("large", 200)
    for _ in range(60):
        worker, count = rng.choice(["a", "b", "c", "d", NO_WORKER]), rng.randint(1, 6)
        found = await store.claim("large", "x", count, now=0.0, until=30.0, worker=worker)

        assert list(ranges.take(worker, count)) == found
    await store.forget("large")


async def test_an_unknown_batch_has_no_lines(store: LineStore) -> None:
    assert [] == await store.claim("other", "x", 3, now=0.0, until=30.0)
    assert await store.progress("other") is None
    assert not await store.finish("other", 0, OK)
    assert {} == await store.results("other", 0, 10)


async def test_a_batch_begins_once(store: LineStore) -> None:
    await claimed(store, "x", 3)
    await store.begin("b", 5)

    assert Progress(10, 0, 0) == await store.progress("b")
    assert [3] == await claimed(store, "x", 1)


async def test_lines_of_an_owner_without_a_lease_are_claimed_again(store: LineStore) -> None:
    """Before lines that were never claimed, but without those that it finished."""
    await claimed(store, "x", 4, until=30.0)
    await store.finish("b", 1, OK)

    assert [4] == await claimed(store, "y", 1, now=29.0, until=90.0)
    assert [0, 2] == await claimed(store, "y", 2, now=30.0, until=90.0)
    assert [3, 5] == await claimed(store, "y", 2, now=30.0, until=90.0)


async def test_a_renewed_lease_keeps_its_lines(store: LineStore) -> None:
    await claimed(store, "x", 4, until=30.0)
    await store.renew("b", "x", until=60.0)

    assert [4] == await claimed(store, "y", 1, now=59.0, until=90.0)
    assert [0] == await claimed(store, "y", 1, now=60.0, until=90.0)


async def test_a_lease_that_ended_cannot_be_renewed(store: LineStore) -> None:
    await claimed(store, "x", 1, until=30.0)
    await claimed(store, "y", 1, now=30.0, until=90.0)
    await store.renew("b", "x", until=60.0)
    await store.renew("b", "never", until=60.0)

    assert [1] == await claimed(store, "y", 1, now=61.0, until=90.0)


async def test_the_first_result_counts(store: LineStore) -> None:
    """Also if its owner had lost the line to another one."""
    await claimed(store, "x", 1, until=30.0)
    await claimed(store, "y", 1, now=30.0, until=90.0)

    assert await store.finish("b", 0, OK)
    assert not await store.finish("b", 0, FAILED)
    assert {0: OK} == await store.results("b", 0, 10)
    assert Progress(10, 1, 0) == await store.progress("b")
    assert [1] == await claimed(store, "z", 1, now=1000.0, until=1030.0)


async def test_a_line_that_was_returned_and_then_finished_is_not_claimed_again(store: LineStore) -> None:
    await claimed(store, "x", 2, until=30.0)
    assert [0] == await claimed(store, "y", 1, now=30.0, until=90.0)
    assert await store.finish("b", 1, OK)

    assert [2] == await claimed(store, "y", 1, now=30.0, until=90.0)


async def test_progress_counts_results(store: LineStore) -> None:
    for line in range(10):
        await store.finish("b", line, FAILED if line % 3 == 0 else OK)
    progress = await store.progress("b")

    assert Progress(10, 6, 4) == progress
    assert progress is not None
    assert progress.is_done
    assert not Progress(10, 6, 3).is_done


async def test_results_are_read_in_ranges(store: LineStore) -> None:
    for line in (0, 4, 5, 9):
        await store.finish("b", line, OK)

    assert [4, 5] == sorted(await store.results("b", 1, 9))
    assert {} == await store.results("b", 3, 3)


async def test_a_forgotten_batch_is_gone(store: LineStore) -> None:
    await claimed(store, "x", 2)
    await store.finish("b", 0, OK)
    await store.forget("b")

    assert await store.progress("b") is None
    assert not await store.finish("b", 1, OK)
    await store.begin("b", 3)
    assert [0, 1, 2] == await claimed(store, "y", 10)


@pytest.mark.parametrize("seed", range(5))
async def test_every_line_gets_one_result_whatever_owners_die(store: LineStore, seed: int) -> None:
    rng, now = random.Random(seed), 0.0
    finished: list[int] = []

    async def work(owner: str) -> None:
        lines = await store.claim("b", owner, rng.randint(1, 4), now=now, until=now + 5.0)
        finished.extend([line for line in lines if rng.random() < 0.5 and await store.finish("b", line, OK)])

    for step in range(400):
        now += 1.0
        await asyncio.gather(*(work(f"owner-{step}-{n}") for n in range(2)))
        progress = await store.progress("b")
        assert progress is not None
        if progress.is_done:
            break

    assert list(range(10)) == sorted(finished)
