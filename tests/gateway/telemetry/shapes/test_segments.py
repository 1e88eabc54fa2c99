import logging
from pathlib import Path

import pytest

from gateway.telemetry.shapes.layout import SUFFIX, frame
from gateway.telemetry.shapes.segments import Segments
from tests.gateway.telemetry.shapes.examples import Times


def segments(directory: Path | None, times: Times, *, max_bytes: int = 8000, keep_s: float = 80.0) -> Segments:
    return Segments(directory, max_bytes=max_bytes, keep_s=keep_s, wall_clock=times.wall_clock)


def sizes(directory: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(directory.glob(f"*{SUFFIX}"))]


def test_a_file_is_an_eighth_of_the_limit(tmp_path: Path) -> None:
    """The frame that reaches it is the last one, and its names are forgotten."""
    files = segments(tmp_path, Times())
    answers = [files.write(frame(b"", bytes(400))) for _ in range(3)]
    files.close()

    assert [True, True, False] == answers
    assert [True] == [1200 < size < 1400 for size in sizes(tmp_path)]


def test_all_files_together_stay_within_the_limit(tmp_path: Path) -> None:
    """The oldest go first."""
    files = segments(tmp_path, Times())
    for _ in range(100):
        files.write(frame(b"", bytes(990)))

        assert sum(sizes(tmp_path)) <= 8000 + 1100
    files.close()


def test_files_end_when_their_time_is_over(tmp_path: Path) -> None:
    """An eighth of what is kept; the files of an hour ago are deleted when the next one begins."""
    times = Times()
    files = segments(tmp_path, times)
    for second in range(0, 400, 5):
        times.now = float(second)
        files.write(frame(b"", bytes(8)))
    files.close()

    assert 7 <= len(sizes(tmp_path)) <= 10


def test_a_restart_keeps_what_is_there(tmp_path: Path) -> None:
    """Files of an earlier run count against the limit."""
    times = Times()
    for second in range(20):
        times.now = float(second)
        files = segments(tmp_path, times, keep_s=1e9)
        files.write(frame(b"", bytes(990)))
        files.close()

    assert 6 <= len(sizes(tmp_path)) <= 8


def test_a_temporary_folder_is_deleted_at_the_end() -> None:
    files = segments(None, Times())
    before = files.directory
    files.write(frame(b"", bytes(8)))
    directory = files.directory
    assert directory is not None
    found = sizes(directory)
    files.close()

    assert before is None
    assert 1 == len(found)
    assert not directory.exists()


def test_a_folder_that_cannot_be_written_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Requests go on; the next frame tries again."""
    place = tmp_path / "file"
    place.write_text("")
    files = segments(place, Times())
    with caplog.at_level(logging.WARNING):
        answers = [files.write(frame(b"", b"x")) for _ in range(3)]
    files.close()

    assert [False, False, False] == answers
    assert ["Request shapes could not be written and are lost: File exists"] == caplog.messages
