import json
from pathlib import Path

import pytest

from gateway.batch.batch import BatchUsage
from gateway.batch.line_store import LineResult
from gateway.batch.plan import PlanJob, plan, planned_lines
from gateway.batch.results import BatchFolder, PartWriter, Written, request_id_of, usage_of, write_files
from gateway.protocol.errors import FilesUnavailable
from tests.gateway.batch.examples import names_in


def planned(folder: Path, count: int) -> BatchFolder:
    """A batch whose order is the reverse of its file, as its prompts are."""
    lines = [
        {"custom_id": str(n), "method": "POST", "url": "/v1/completions", "body": {"model": "tiny", "prompt": f"{n}"}}
        for n in range(count)
    ]
    (folder / "up").write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    batch = BatchFolder(folder, "batch_1")
    batch.link(folder / "up")
    plan(PlanJob(str(batch.input), str(batch.plan), "/v1/completions", max_lines=100, max_line_bytes=1000))
    return batch


async def test_outputs_are_appended(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path / "part")
    starts = [await writer.append(b"one\n"), await writer.append(b"three\n")]
    writer.close()

    assert [0, 4] == starts
    assert b"one\nthree\n" == (tmp_path / "part").read_bytes()


async def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(FilesUnavailable, match="No such file or directory"):
        await PartWriter(tmp_path / "gone" / "part").append(b"x")


def test_files_have_the_order_of_the_input_file(tmp_path: Path) -> None:
    """With an error for each line without a result; what no result refers to is left out."""
    folder = planned(tmp_path, 4)
    with folder.plan.open("rb") as file:
        numbers = [line.number for line in planned_lines(file)]
    places = {number: place for place, number in enumerate(numbers)}
    folder.part("a").write_bytes(b"lost\none\nthree\n")
    folder.part("b").write_bytes(b"two\n")
    results = {
        places[3]: LineResult("batch_1.a.part", 9, 6, ok=True),
        places[1]: LineResult("batch_1.a.part", 5, 4, ok=True),
        places[2]: LineResult("batch_1.b.part", 0, 4, ok=False),
    }
    written = write_files(
        "batch_1", folder, results, output=tmp_path / "out", errors=tmp_path / "err", missing=("gone", "It is gone.")
    )

    assert b"one\nthree\n" == (tmp_path / "out").read_bytes()
    two, four = (tmp_path / "err").read_bytes().splitlines()
    assert b"two" == two
    assert ("3", {"code": "gone", "message": "It is gone."}) == (
        json.loads(four)["custom_id"],
        json.loads(four)["error"],
    )
    assert Written(10, 2, len(two) + len(four) + 2, 2) == written


def test_a_file_without_lines_is_not_written(tmp_path: Path) -> None:
    folder = planned(tmp_path, 1)
    folder.part("a").write_bytes(b"one\n")
    result = LineResult("batch_1.a.part", 0, 4, ok=True)
    written = write_files(
        "batch_1", folder, {0: result}, output=tmp_path / "out", errors=tmp_path / "err", missing=("x", "y")
    )

    assert Written(4, 1, 0, 0) == written
    assert not (tmp_path / "err").exists()


def test_a_failure_leaves_no_complete_file(tmp_path: Path) -> None:
    folder = planned(tmp_path, 2)
    folder.part("a").write_bytes(b"one\n")
    results = {0: LineResult("batch_1.a.part", 0, 4, ok=True), 1: LineResult("missing.part", 0, 1, ok=True)}
    with pytest.raises(FileNotFoundError):
        write_files("batch_1", folder, results, output=tmp_path / "out", errors=tmp_path / "err", missing=("x", "y"))

    assert not (tmp_path / "out").exists()


def test_an_ended_batch_leaves_only_the_uploaded_file(tmp_path: Path) -> None:
    folder = planned(tmp_path, 2)
    folder.part("a").touch()
    folder.clear()

    assert ["up"] == names_in(tmp_path)


def test_usage_is_the_sum_of_all_results() -> None:
    one = LineResult("p", 0, 1, True, 1, 2, 3, 4)

    assert BatchUsage(2, 4, 6, 8) == usage_of([one, one])
    assert BatchUsage() == usage_of([])


def test_request_ids_begin_with_the_id_of_the_batch() -> None:
    assert "batch_1-7" == request_id_of("batch_1", 7)
