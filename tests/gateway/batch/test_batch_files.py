import json
from pathlib import Path

import pytest

from gateway.batch import batch_files
from gateway.batch.batch_files import BatchFiles
from gateway.batch.folder import Folder
from gateway.batch.plan import PlannedLine, packed
from gateway.protocol.errors import FilesUnavailable


class _CountingFolder(Folder):
    """A folder that counts how often each content is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads: dict[str, int] = {}

    async def read(self, name: str, start: int, length: int) -> bytes:
        self.reads[name] = self.reads.get(name, 0) + 1
        return await super().read(name, start, length)


def a_batch(folder: Path, count: int) -> tuple[BatchFiles, _CountingFolder]:
    """A batch whose plan is the reverse of its input file."""
    data, lines = b"", []
    for n in range(count):
        line = json.dumps({"custom_id": str(n), "method": "POST", "url": "/v1/completions", "body": {}}).encode()
        lines.append(PlannedLine(n + 1, len(data), len(line), 7, 3))
        data += line + b"\n"
    (folder / "batch_1.input").write_bytes(data)
    (folder / "batch_1.plan").write_bytes(packed(reversed(lines)))
    contents = _CountingFolder(folder)
    return BatchFiles(contents, "batch_1"), contents


async def test_a_line_is_found_by_its_place(tmp_path: Path) -> None:
    files, _ = a_batch(tmp_path, 3)
    planned, line = await files.line(0)

    assert (3, 7, 3) == (planned.number, planned.prompt_bytes, planned.step_bytes)
    assert ["2", "1", "0"] == [line.custom_id, *[(await files.line(place))[1].custom_id for place in (1, 2)]]


async def test_the_plan_is_read_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest pages stay in memory."""
    monkeypatch.setattr(batch_files, "PAGE", 2)
    monkeypatch.setattr(batch_files, "PAGES", 2)
    files, contents = a_batch(tmp_path, 7)
    found = [(await files.line(place))[1].custom_id for place in (0, 1, 2, 0, 6, 1, 3)]

    assert ["6", "5", "4", "6", "0", "5", "3"] == found
    assert 4 == contents.reads["batch_1.plan"]


async def test_contents_that_are_too_short_are_noticed(tmp_path: Path) -> None:
    files, _ = a_batch(tmp_path, 3)
    with pytest.raises(FilesUnavailable, match="plan of the batch is shorter"):
        await files.line(3)
    (tmp_path / "batch_1.input").write_bytes(b"{")
    with pytest.raises(FilesUnavailable, match="input file of the batch is shorter"):
        await files.line(0)
