"""When a change of a file may be taken."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.watched_file import WatchedFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("one")
    return path


def noted(path: Path) -> WatchedFile:
    file = WatchedFile(path)
    file.note()
    return file


def looks(file: WatchedFile, count: int = 4) -> list[bool]:
    return [file.has_changed() for _ in range(count)]


def in_place(path: Path) -> None:
    path.write_text("two")


def renamed_over(path: Path) -> None:
    other = path.with_suffix(".swp")
    other.write_text("two")
    other.rename(path)


def removed(path: Path) -> None:
    path.unlink()


def a_folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def same_size_and_time(path: Path) -> None:
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [in_place, renamed_over, removed, a_folder_instead, same_size_and_time])
def test_a_change_is_told_once_at_the_second_look(path: Path, change: Callable[[Path], None]) -> None:
    """However it was made; at the first look somebody may still be writing."""
    file = noted(path)
    change(path)

    assert [False, True, False, False] == looks(file)


def test_a_link_that_is_swapped_is_a_change(tmp_path: Path) -> None:
    """Kubernetes renames a link over `..data`, through which the name of the file leads."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "file").write_text(version)
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "file").symlink_to("..data/file")
    file = noted(tmp_path / "file")
    assert not any(looks(file))
    (tmp_path / "..data_tmp").symlink_to("2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    assert [False, True, False, False] == looks(file)


def test_a_file_that_is_being_written_is_not_taken(path: Path) -> None:
    """As long as every look finds something else."""
    file = noted(path)
    told = []
    for text in ("", "tw", "two", "two"):
        path.write_text(text)
        told.append(file.has_changed())

    assert [False, False, False, True] == told


def test_what_comes_back_as_it_was_has_not_changed(path: Path) -> None:
    """Nor has a file that was only touched, or written again with the same words."""
    file = noted(path)
    path.unlink()
    told = [file.has_changed()]
    path.write_text("one")
    told += looks(file)
    os.utime(path, (0, 0))

    assert not any(told + looks(file))


def test_a_file_that_comes_is_a_change(tmp_path: Path) -> None:
    """It need not be there at the beginning."""
    file = noted(tmp_path / "file")
    assert not any(looks(file))
    (tmp_path / "file").write_text("one")

    assert [False, True] == looks(file, 2)


def test_what_was_noted_is_known(path: Path) -> None:
    """Whoever read it in between is not told of it again."""
    file = noted(path)
    path.write_text("two")
    file.note()

    assert not any(looks(file))


def test_a_pipe_is_left_alone(tmp_path: Path) -> None:
    """To look into it would take what somebody else is to read, or wait for ever."""
    os.mkfifo(tmp_path / "pipe")

    assert not any(looks(noted(tmp_path / "pipe")))
