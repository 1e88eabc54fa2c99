"""Limits of enqueued tokens."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from gateway.batch.enqueued import EnqueuedTokens
from gateway.batch.sqlite_records import SqliteRecords
from gateway.storage.sqlite_file import MEMORY, SqliteFile


@asynccontextmanager
async def limited(
    max_tokens: int | None = 100, by_model: Mapping[str, int] | None = None
) -> AsyncIterator[EnqueuedTokens]:
    """Limits with four bytes in each token; ``small`` is an alias of ``tiny``."""
    file = SqliteFile(MEMORY)
    yield EnqueuedTokens(
        SqliteRecords(file, "enqueued"),
        max_tokens=max_tokens,
        by_model=by_model or {},
        token_count=lambda _, size: size // 4,
        name_of=lambda asked: {"small": "tiny"}.get(asked, asked),
    )
    await file.aclose()


async def test_tokens_are_counted_by_configured_model() -> None:
    """An alias has no limit of its own, and models without a limit are not counted."""
    async with limited() as enqueued:
        assert {"tiny": 30, "huge": 1} == enqueued.tokens({"tiny": 80, "small": 40, "huge": 4})
    async with limited(None, {"tiny": 5}) as enqueued:
        assert {"tiny": 20} == enqueued.tokens({"tiny": 80, "huge": 4})


async def test_a_team_has_a_limit_for_each_model() -> None:
    """Other teams and other models have their own."""
    async with limited(100, {"huge": 10}) as enqueued:
        assert await enqueued.reserve("b1", "blue", {"tiny": 60}) is None
        refused = await enqueued.reserve("b2", "blue", {"huge": 1, "tiny": 41})
        assert refused is not None
        assert ("token_limit_exceeded", None, None) == (refused.code, refused.param, refused.line)
        assert "Limit: 100 enqueued tokens. Please try again" in refused.message
        assert await enqueued.reserve("b3", "blue", {"huge": 10, "tiny": 40}) is None
        assert await enqueued.reserve("b4", "green", {"tiny": 100}) is None


async def test_a_batch_counts_once_until_it_ends() -> None:
    """Validation may be repeated after a crash, and so may the end."""
    async with limited() as enqueued:
        for _ in range(2):
            assert await enqueued.reserve("b1", "blue", {"tiny": 100}) is None
        assert await enqueued.reserve("b2", "blue", {"tiny": 1}) is not None
        for _ in range(2):
            await enqueued.release("b1", "blue", {"tiny": 100})
        assert await enqueued.reserve("b2", "blue", {"tiny": 100}) is None


async def test_a_batch_that_never_fits_is_refused_with_another_text() -> None:
    """Waiting does not help it."""
    async with limited() as enqueued:
        refused = await enqueued.reserve("b1", "blue", {"tiny": 1001})

    assert refused is not None
    assert refused.message.endswith("The batch has about 1,001 tokens. Split it into several batches.")


async def test_batches_at_the_same_time_stay_below_the_limit() -> None:
    """Five of ten fit."""
    async with limited() as enqueued:
        found = await asyncio.gather(*[enqueued.reserve(f"b{n}", "blue", {"tiny": 20}) for n in range(10)])

    assert 5 == found.count(None)
