from pathlib import Path

import pytest

from gateway.batch import planner
from gateway.batch.plan import PlanJob, planned_lines
from gateway.batch.planner import planned
from gateway.protocol.errors import FilesUnavailable

pytestmark = pytest.mark.e2e

LINE = b'{"custom_id":"1","method":"POST","url":"/v1/completions","body":{"model":"tiny","prompt":"Hi"}}\n'


def a_job(folder: Path) -> PlanJob:
    return PlanJob(str(folder / "in"), str(folder / "plan"), "/v1/completions", max_lines=10, max_line_bytes=1000)


async def test_a_file_is_validated_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(LINE)
    found = await planned(a_job(tmp_path))

    assert (1, [], {"tiny": 1}) == (found.total, found.faults, found.models)
    with (tmp_path / "plan").open("rb") as file:
        assert [(1, 0, len(LINE))] == [(line.number, line.start, line.length) for line in planned_lines(file)]


async def test_a_missing_file_is_a_fault(tmp_path: Path) -> None:
    found = await planned(a_job(tmp_path))

    assert ["unreadable_file"] == [fault.code for fault in found.faults]


async def test_a_process_without_a_result_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "CHILD", ("-c", "raise SystemExit(3)"))

    with pytest.raises(FilesUnavailable, match="ended with status 3"):
        await planned(a_job(tmp_path))
