import json
from pathlib import Path

import pytest

from gateway.batch.batch import BatchUsage
from gateway.batch.batch_files import BatchFiles
from gateway.batch.folder import Folder
from gateway.batch.line_store import LineResult
from gateway.batch.plan import PlanJob, packed, plan, planned_lines
from gateway.batch.results import Written, request_id_of, usage_of, write_files
from gateway.protocol.errors import ContentMissing, FilesUnavailable
from tests.gateway.batch.examples import names_in, read_all


async def planned(folder: Path, count: int) -> BatchFiles:
    """A batch whose order is the reverse of its file, as its prompts are."""
    lines = [
        {"custom_id": str(n), "method": "POST", "url": "/v1/completions", "body": {"model": "tiny", "prompt": f"{n}"}}
        for n in range(count)
    ]
    (folder / "up").write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    batch = BatchFiles(Folder(folder), "batch_1")
    await batch.copy_input("up")
    _, order = plan(PlanJob(str(folder / "up"), "/v1/completions", max_lines=100, max_line_bytes=1000))
    (folder / batch.plan).write_bytes(packed(order))
    return batch


async def written(batch: BatchFiles, results: dict[int, LineResult], *, total: int) -> Written:
    return await write_files(
        "batch_1", batch, results, total=total, output="out", errors="err", missing=("gone", "It is gone.")
    )


async def test_files_have_the_order_of_the_input_file(tmp_path: Path) -> None:
    """With an error for each line without a result; what no result refers to is left out."""
    batch = await planned(tmp_path, 4)
    numbers = [line.number for line in planned_lines(await read_all(batch.contents, batch.plan))]
    places = {number: place for place, number in enumerate(numbers)}
    (tmp_path / "batch_1.a.part").write_bytes(b"lost\none\nthree\n")
    (tmp_path / "batch_1.b.part").write_bytes(b"two\n")
    results = {
        places[3]: LineResult("batch_1.a.part", 9, 6, ok=True),
        places[1]: LineResult("batch_1.a.part", 5, 4, ok=True),
        places[2]: LineResult("batch_1.b.part", 0, 4, ok=False),
    }
    sizes = await written(batch, results, total=4)

    assert b"one\nthree\n" == (tmp_path / "out").read_bytes()
    two, four = (tmp_path / "err").read_bytes().splitlines()
    assert b"two" == two
    assert ("3", {"code": "gone", "message": "It is gone."}) == (
        json.loads(four)["custom_id"],
        json.loads(four)["error"],
    )
    assert Written(10, 2, len(two) + len(four) + 2, 2) == sizes


async def test_large_files_are_written_in_pieces(tmp_path: Path) -> None:
    batch = await planned(tmp_path, 5)
    line = b"x" * 700_000 + b"\n"
    (tmp_path / "batch_1.a.part").write_bytes(line * 5)
    results = {n: LineResult("batch_1.a.part", n * len(line), len(line), ok=True) for n in range(5)}
    sizes = await written(batch, results, total=5)

    assert line * 5 == (tmp_path / "out").read_bytes()
    assert Written(5 * len(line), 5, 0, 0) == sizes


async def test_a_file_without_lines_is_not_written(tmp_path: Path) -> None:
    batch = await planned(tmp_path, 1)
    (tmp_path / "batch_1.a.part").write_bytes(b"one\n")
    sizes = await written(batch, {0: LineResult("batch_1.a.part", 0, 4, ok=True)}, total=1)

    assert Written(4, 1, 0, 0) == sizes
    assert not (tmp_path / "err").exists()


async def test_a_failure_leaves_no_complete_file(tmp_path: Path) -> None:
    batch = await planned(tmp_path, 2)
    (tmp_path / "batch_1.a.part").write_bytes(b"one\n")
    one = LineResult("batch_1.a.part", 0, 4, ok=True)
    with pytest.raises(ContentMissing):
        await written(batch, {0: one, 1: LineResult("missing.part", 0, 1, ok=True)}, total=2)
    with pytest.raises(FilesUnavailable, match=r"batch_1\.a\.part is shorter"):
        await written(batch, {0: one, 1: LineResult("batch_1.a.part", 4, 1, ok=True)}, total=2)

    assert ["batch_1.a.part", "batch_1.input", "batch_1.plan", "up"] == names_in(tmp_path)


async def test_an_ended_batch_leaves_only_the_uploaded_file(tmp_path: Path) -> None:
    batch = await planned(tmp_path, 2)
    (tmp_path / "batch_1.a.part").touch()
    await batch.clear()

    assert ["up"] == names_in(tmp_path)


def test_usage_is_the_sum_of_all_results() -> None:
    one = LineResult("p", 0, 1, True, 1, 2, 3, 4)

    assert BatchUsage(2, 4, 6, 8) == usage_of([one, one])
    assert BatchUsage() == usage_of([])


def test_request_ids_begin_with_the_id_of_the_batch() -> None:
    assert "batch_1-7" == request_id_of("batch_1", 7)
