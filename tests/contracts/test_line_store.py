"""Facts about what the gateway expects of any `LineStore`."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.batch.line_store import BatchRef, LineResult, LineStore, Progress
from gateway.batch.ranges import NO_WORKER, LineRange, LineRanges
from gateway.batch.redis_lines import RedisLines
from gateway.batch.sqlite_lines import SqliteLines
from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger import sqlite_usage
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.redis_usage import RedisUsage
from gateway.tenancy.ledger.sqlite_usage import SqliteUsage
from gateway.tenancy.ledger.usage_store import Period, RecordQuery, SumQuery, UsageStore
from tests.gateway.tenancy.ledger.examples import an_entry
from tests.storage import PATIENCE_S, RedisServer

OK = LineResult("part", 10, 20, ok=True, prompt_tokens=5, cached_tokens=4, completion_tokens=3, reasoning_tokens=2)
OTHER = BatchRef("blue", "other")
B = BatchRef("blue", "b")
EVER = Period("2026-01-01", "2027-12-31")
FAILED = LineResult("part", 0, 1, ok=False)


class Stores(NamedTuple):
    lines: LineStore
    usage: UsageStore


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    """Lines and a ledger in the same store, with the batch ``b`` of ten lines."""
    if request.param == "sqlite":
        file = SqliteFile(tmp_path / "db")
        await file.run(sqlite_usage.create)
        found = Stores(SqliteLines(file), SqliteUsage(file))
        await found.lines.begin(B, 10)
        yield found
        await file.aclose()
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        link = redis_link(server.url, timeout_s=PATIENCE_S)
        found = Stores(RedisLines(link), RedisUsage(link))
        await found.lines.begin(B, 10)
        yield found
        await link.aclose()


@pytest.fixture
def store(stores: Stores) -> LineStore:
    return stores.lines


async def claimed(store: LineStore, owner: str, count: int, *, now: float = 0.0, until: float = 30.0) -> list[int]:
    return await store.claim(B, owner, count, now=now, until=until)


async def test_lines_are_claimed_in_order_and_once(store: LineStore) -> None:
    assert [0, 1, 2] == await claimed(store, "x", 3)
    assert [3, 4, 5, 6] == await claimed(store, "y", 4)
    assert [7, 8, 9] == await claimed(store, "x", 4)
    assert [] == await claimed(store, "y", 4)


async def test_each_worker_has_a_range_of_lines(store: LineStore) -> None:
    """A worker without a range takes the second half of the largest one."""

    async def lines(worker: str, count: int) -> list[int]:
        return await store.claim(B, "x", count, now=0.0, until=30.0, worker=worker)

    assert [[0, 1], [6], [4], [2, 3], [7, 8], [5], [9], []] == [
        await lines(worker, count)
        for worker, count in [("a", 2), ("b", 1), ("c", 1), ("a", 4), ("b", 2), ("a", 3), ("a", 3), ("c", 1)]
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_lines_are_divided_as_ranges_are(store: LineStore, seed: int) -> None:
    rng, ranges = random.Random(seed), LineRanges([LineRange(NO_WORKER, 0, 200)])
    await store.begin(BatchRef("blue", "large"), 200)
    for _ in range(60):
        worker, count = rng.choice(["a", "b", "c", "d", NO_WORKER]), rng.randint(1, 6)
        found = await store.claim(BatchRef("blue", "large"), "x", count, now=0.0, until=30.0, worker=worker)

        assert list(ranges.take(worker, count)) == found
    await store.forget(BatchRef("blue", "large"))


async def test_an_unknown_batch_has_no_lines(store: LineStore) -> None:
    assert [] == await store.claim(OTHER, "x", 3, now=0.0, until=30.0)
    assert await store.progress(OTHER) is None
    assert not await store.finish(OTHER, 0, OK)
    assert {} == await store.results(OTHER, 0, 10)


async def test_a_batch_begins_once(store: LineStore) -> None:
    await claimed(store, "x", 3)
    await store.begin(B, 5)

    assert Progress(10, 0, 0) == await store.progress(B)
    assert [3] == await claimed(store, "x", 1)


async def test_lines_of_an_owner_without_a_lease_are_claimed_again(store: LineStore) -> None:
    """Before lines that were never claimed, but without those that it finished."""
    await claimed(store, "x", 4, until=30.0)
    await store.finish(B, 1, OK)

    assert [4] == await claimed(store, "y", 1, now=29.0, until=90.0)
    assert [0, 2] == await claimed(store, "y", 2, now=30.0, until=90.0)
    assert [3, 5] == await claimed(store, "y", 2, now=30.0, until=90.0)


async def test_a_renewed_lease_keeps_its_lines(store: LineStore) -> None:
    await claimed(store, "x", 4, until=30.0)
    await store.renew(B, "x", until=60.0)

    assert [4] == await claimed(store, "y", 1, now=59.0, until=90.0)
    assert [0] == await claimed(store, "y", 1, now=60.0, until=90.0)


async def test_a_lease_that_ended_cannot_be_renewed(store: LineStore) -> None:
    await claimed(store, "x", 1, until=30.0)
    await claimed(store, "y", 1, now=30.0, until=90.0)
    await store.renew(B, "x", until=60.0)
    await store.renew(B, "never", until=60.0)

    assert [1] == await claimed(store, "y", 1, now=61.0, until=90.0)


async def test_the_first_result_counts(store: LineStore) -> None:
    """Also if its owner had lost the line to another one."""
    await claimed(store, "x", 1, until=30.0)
    await claimed(store, "y", 1, now=30.0, until=90.0)

    assert await store.finish(B, 0, OK)
    assert not await store.finish(B, 0, FAILED)
    assert {0: OK} == await store.results(B, 0, 10)
    assert Progress(10, 1, 0) == await store.progress(B)
    assert [1] == await claimed(store, "z", 1, now=1000.0, until=1030.0)


async def test_a_line_that_was_returned_and_then_finished_is_not_claimed_again(store: LineStore) -> None:
    await claimed(store, "x", 2, until=30.0)
    assert [0] == await claimed(store, "y", 1, now=30.0, until=90.0)
    assert await store.finish(B, 1, OK)

    assert [2] == await claimed(store, "y", 1, now=30.0, until=90.0)


async def test_progress_counts_results(store: LineStore) -> None:
    for line in range(10):
        await store.finish(B, line, FAILED if line % 3 == 0 else OK)
    progress = await store.progress(B)

    assert Progress(10, 6, 4) == progress
    assert progress is not None
    assert progress.is_done
    assert not Progress(10, 6, 3).is_done


async def test_results_are_read_in_ranges(store: LineStore) -> None:
    for line in (0, 4, 5, 9):
        await store.finish(B, line, OK)

    assert [4, 5] == sorted(await store.results(B, 1, 9))
    assert {} == await store.results(B, 3, 3)


async def test_a_closed_batch_accepts_no_results(stores: Stores) -> None:
    """Its output is written, so a result that came later would be in the ledger but not in the output."""
    store, usage = stores
    await claimed(store, "x", 2)
    await store.finish(B, 0, OK, an_entry())
    await store.close(B)
    await store.close(OTHER)

    assert not await store.finish(B, 1, OK, an_entry())
    assert {0: OK} == await store.results(B, 0, 10)
    assert Progress(10, 1, 0) == await store.progress(B)
    assert await store.progress(OTHER) is None
    assert [1] == [each.requests for each in await usage.sums(SumQuery(period=EVER))]
    await store.forget(B)
    await store.begin(B, 10)
    assert await store.finish(B, 1, OK)


async def test_the_entry_of_the_first_result_is_in_the_ledger(stores: Stores) -> None:
    store, usage = stores
    assert await store.finish(B, 0, OK, an_entry(prompt_tokens=7, cost_usd=0.5, user="ann"))
    assert not await store.finish(B, 0, OK, an_entry(prompt_tokens=8, cost_usd=0.25))
    assert await store.finish(B, 1, FAILED)
    assert not await store.finish(OTHER, 0, OK, an_entry())

    records = (await usage.records(RecordQuery(period=EVER))).items
    assert [an_entry(prompt_tokens=7, cost_usd=0.5, user="ann").record] == records
    assert ["blue"] == await usage.teams()


@pytest.mark.parametrize("seed", range(5))
async def test_the_ledger_has_what_the_results_have_whatever_owners_die(stores: Stores, seed: int) -> None:
    """Each run of a line has another length, and the output has the run that the ledger has. Gateways die before the
    store hears of their results, or just after, and slow ones end when their lines run elsewhere already.
    """
    store, usage = stores
    rng, now, total = random.Random(seed), 0.0, 60
    batch = BatchRef("blue", "large")
    await store.begin(batch, total)

    async def work(owner: str) -> None:
        for line in await store.claim(batch, owner, rng.randint(1, 8), now=now, until=now + rng.randint(1, 5)):
            tokens = rng.randint(1, 1000)
            dies = rng.random()
            if dies < 0.2:
                return
            result = LineResult(owner, line, tokens, ok=True, prompt_tokens=tokens, completion_tokens=2 * tokens)
            entry = an_entry(
                request_id=f"large-{line}", prompt_tokens=tokens, completion_tokens=2 * tokens, cost_usd=tokens / 1000
            )
            if dies < 0.4:  # another gateway gets the line before this one finishes it
                late.append((line, result, entry))
            else:
                await store.finish(batch, line, result, entry)
            if dies > 0.9:
                return

    late: list[tuple[int, LineResult, Entry]] = []
    for step in range(2000):
        now += 1.0
        await asyncio.gather(*(work(f"owner-{step}-{n}") for n in range(3)))
        while late and rng.random() < 0.5:
            await store.finish(batch, *late.pop(rng.randrange(len(late))))
        progress = await store.progress(batch)
        if progress is not None and progress.is_done:
            break
    for each in late:
        assert not await store.finish(batch, *each)
    results = await store.results(batch, 0, total)
    (found,) = await usage.sums(SumQuery(period=EVER))
    records = (await usage.records(RecordQuery(period=EVER), most=2 * total)).items

    assert list(range(total)) == sorted(results)
    assert {f"large-{line}": result.prompt_tokens for line, result in results.items()} == {
        each.request_id: each.prompt_tokens for each in records
    }
    assert total == len(records) == found.requests
    assert sum(each.prompt_tokens for each in results.values()) == found.prompt_tokens
    assert sum(each.completion_tokens for each in results.values()) == found.completion_tokens
    assert round(1e6 * sum(each.prompt_tokens for each in results.values())) == round(1e9 * found.cost_usd)


async def test_a_forgotten_batch_is_gone(store: LineStore) -> None:
    await claimed(store, "x", 2)
    await store.finish(B, 0, OK)
    await store.forget(B)

    assert await store.progress(B) is None
    assert not await store.finish(B, 1, OK)
    await store.begin(B, 3)
    assert [0, 1, 2] == await claimed(store, "y", 10)


@pytest.mark.parametrize("seed", range(5))
async def test_every_line_gets_one_result_whatever_owners_die(store: LineStore, seed: int) -> None:
    rng, now = random.Random(seed), 0.0
    finished: list[int] = []

    async def work(owner: str) -> None:
        lines = await store.claim(B, owner, rng.randint(1, 4), now=now, until=now + 5.0)
        finished.extend([line for line in lines if rng.random() < 0.5 and await store.finish(B, line, OK)])

    for step in range(400):
        now += 1.0
        await asyncio.gather(*(work(f"owner-{step}-{n}") for n in range(2)))
        progress = await store.progress(B)
        assert progress is not None
        if progress.is_done:
            break

    assert list(range(10)) == sorted(finished)
