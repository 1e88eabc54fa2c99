from pathlib import Path

import pytest

from gateway.batch import planner
from gateway.batch.folder import Folder
from gateway.batch.plan import PlanJob, Planned, planned_lines
from gateway.batch.planner import planned
from gateway.protocol.errors import FilesUnavailable
from tests.gateway.batch.examples import read_all

pytestmark = pytest.mark.e2e

LINE = b'{"custom_id":"1","method":"POST","url":"/v1/completions","body":{"model":"tiny","prompt":"Hi"}}\n'
JOB = PlanJob("", "/v1/completions", max_lines=10, max_line_bytes=1000)


async def planned_in(path: Path, data: bytes) -> Planned:
    """The result for *data*, with its order in the content ``plan``."""
    (path / "in").write_bytes(data)
    folder = Folder(path)
    writer = folder.writer("plan")
    try:
        async with folder.local(["in"]) as found:
            result = await planned(JOB, found["in"], writer)
        await writer.keep()
    finally:
        await writer.discard()
    return result


async def test_a_file_is_validated_in_another_process(tmp_path: Path) -> None:
    found = await planned_in(tmp_path, LINE)

    assert (1, [], {"tiny": 1}) == (found.total, found.faults, found.models)
    plan = await read_all(Folder(tmp_path), "plan")
    assert [(1, 0, len(LINE))] == [(line.number, line.start, line.length) for line in planned_lines(plan)]


async def test_faults_leave_no_order(tmp_path: Path) -> None:
    found = await planned_in(tmp_path, LINE + b"{}\n")

    assert ["invalid_json_line"] == [fault.code for fault in found.faults]
    assert b"" == await read_all(Folder(tmp_path), "plan")


@pytest.mark.parametrize("program", ["raise SystemExit(3)", "import sys; print('x'); raise SystemExit(3)"])
async def test_a_process_without_a_result_is_no_result(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "CHILD", ("-c", program))

    with pytest.raises(FilesUnavailable, match="ended with status 3"):
        await planned_in(tmp_path, LINE)
