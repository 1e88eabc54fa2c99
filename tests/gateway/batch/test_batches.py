from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.batch.batch import begun, finalizing
from gateway.batch.batches import Batches, BatchRules
from gateway.batch.contents import Contents
from gateway.batch.files import FileInfo, Files
from gateway.batch.folder import Folder
from gateway.batch.line_store import BatchRef, LineResult, Progress
from gateway.batch.sqlite_lines import SqliteLines
from gateway.batch.sqlite_records import SqliteRecords
from gateway.protocol.errors import Conflict, InvalidField, QuotaSpent, UnknownBatch, UnknownFile
from gateway.storage.sqlite_file import MEMORY, SqliteFile
from tests.gateway.batch.examples import NOW, some_rules
from tests.gateway.examples import Clock

FIELDS = {"input_file_id": "file-1", "endpoint": "/v1/embeddings", "completion_window": "24h"}
RULES = BatchRules(
    max_team_batches=3,
    keep_s=1000.0,
    max_in_flight_per_worker=2,
    max_cache_share=1.0,
    raise_before_s=3600.0,
    lease_s=10.0,
    max_line_bytes=1000,
    max_lines=100,
)


class Stage:
    """Batches of a team with the file ``file-1``, and their stores."""

    def __init__(self, storage: Path | Contents) -> None:
        contents = Folder(storage) if isinstance(storage, Path) else storage
        self.file = SqliteFile(MEMORY)
        self.store, self.lines = SqliteRecords(self.file, "batch"), SqliteLines(self.file)
        clock = Clock(NOW)
        self.files = Files(SqliteRecords(self.file, "file"), contents, some_rules(), wall_clock=clock)
        self.changes = 0
        self.batches = Batches(self.store, self.lines, self.files, RULES, wall_clock=clock, on_change=self._count)

    async def created(self, **changes: Any) -> str:
        return (await self.batches.create("blue", "ci", {**FIELDS, **changes})).id

    def _count(self) -> None:
        self.changes += 1


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    stage = Stage(folder)
    for file_id, purpose in (("file-1", "batch"), ("file-2", "batch_output")):
        info = FileInfo("a", purpose, 1, 1, int(NOW), int(NOW) + 9999)  # type: ignore[arg-type]
        await stage.files.add("blue", file_id, info)
    yield stage
    await stage.file.aclose()


async def test_a_new_batch_waits_for_its_validation(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        after = {"anchor": "created_at", "seconds": 3600}
        batch_id = await stage.created(metadata={"a": "b"}, output_expires_after=after)
        batch, progress = await stage.batches.find("blue", batch_id)

    info = batch.info
    assert Progress(0, 0, 0) == progress
    assert ("validating", "/v1/embeddings", "file-1", "ci") == (
        info.status,
        info.endpoint,
        info.input_file_id,
        info.key,
    )
    assert (int(NOW), int(NOW) + 86_400) == (info.created_at, info.expires_at)
    assert ({"a": "b"}, 3600, 1) == (info.metadata, info.output_expires_s, stage.changes)


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"input_file_id": 7}, "input_file_id"),
        ({"input_file_id": "x" * 101}, "input_file_id"),
        ({"input_file_id": "file-2"}, "input_file_id"),
        ({"endpoint": "/v1/rerank"}, "endpoint"),
        ({"endpoint": None}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": "x"}, "metadata"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a" * 65: ""}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"output_expires_after": 7}, "output_expires_after"),
        ({"output_expires_after": {"anchor": "created_at"}}, "output_expires_after.seconds"),
        ({"color": "red"}, "color"),
    ],
)
async def test_an_invalid_field_is_named(tmp_path: Path, changes: dict[str, Any], param: str) -> None:
    async with staged(tmp_path) as stage:
        with pytest.raises(InvalidField) as refusal:
            await stage.created(**changes)

    assert param == refusal.value.param


async def test_a_batch_needs_a_file_of_its_team(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        with pytest.raises(UnknownFile) as refusal:
            await stage.batches.create("red", "ci", FIELDS)

    assert "input_file_id" == refusal.value.param


async def test_a_team_has_so_many_batches(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        for _ in range(3):
            await stage.created()
        with pytest.raises(QuotaSpent, match="has 3 batches"):
            await stage.created()


async def test_a_batch_of_another_team_does_not_exist(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        batch_id = await stage.created()
        for act in (stage.batches.find, stage.batches.cancel):
            with pytest.raises(UnknownBatch):
                await act("red", batch_id)


async def test_batches_are_listed_in_pages(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        a, b, c = [await stage.created() for _ in range(3)]
        first, has_more = await stage.batches.page("blue", after=None, limit=2)
        rest, has_none = await stage.batches.page("blue", after=b, limit=2)
        with pytest.raises(InvalidField):
            await stage.batches.page("blue", after="x", limit=2)

    assert ([c, b], True, [a], False) == (
        [batch.id for batch, _ in first],
        has_more,
        [batch.id for batch, _ in rest],
        has_none,
    )


async def test_a_running_batch_shows_its_progress(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        batch_id = await stage.created()
        await stage.lines.begin(BatchRef("blue", batch_id), 5)
        await stage.lines.finish(BatchRef("blue", batch_id), 0, LineResult("p", 0, 1, ok=True))

        assert Progress(5, 1, 0) == (await stage.batches.find("blue", batch_id))[1]


async def test_a_cancelled_batch_is_due_at_once(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        batch_id = await stage.created()
        batch, _ = await stage.batches.cancel("blue", batch_id)
        again, _ = await stage.batches.cancel("blue", batch_id)

        assert ("cancelling", int(NOW), 0.0) == (batch.info.status, batch.info.cancelling_at, batch.record.due_at)
        assert batch == again
        assert 2 == stage.changes


async def test_a_batch_whose_files_are_being_written_cannot_be_cancelled(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        batch_id = await stage.created()
        batch, _ = await stage.batches.find("blue", batch_id)
        await stage.store.put(batch.changed(finalizing(begun(batch.info, 1, ["tiny"], NOW), "completed", NOW)).record)
        with pytest.raises(Conflict, match="its status is 'finalizing'"):
            await stage.batches.cancel("blue", batch_id)
