"""Changes of a file."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.storage.watched_file import WatchedFile


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
def test_a_change_is_reported_once_at_the_second_look(path: Path, change: Callable[[Path], None]) -> None:
    """At the first look a program may still be writing."""
    file = noted(path)
    change(path)

    assert [False, True, False, False] == looks(file)


def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    """Kubernetes replaces the link `..data` on the path of the file."""
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


def test_a_file_that_is_being_written_has_not_changed_yet(path: Path) -> None:
    """Each look finds another content."""
    file = noted(path)
    changed = []
    for text in ("", "tw", "two", "two"):
        path.write_text(text)
        changed.append(file.has_changed())

    assert [False, False, False, True] == changed


def test_a_file_that_comes_back_unchanged_has_not_changed(path: Path) -> None:
    """Neither has a file that was only touched, or rewritten with the same content."""
    file = noted(path)
    path.unlink()
    changed = [file.has_changed()]
    path.write_text("one")
    changed += looks(file)
    os.utime(path, (0, 0))

    assert not any(changed + looks(file))


def test_a_new_file_is_a_change(tmp_path: Path) -> None:
    """The file may be missing at first."""
    file = noted(tmp_path / "file")
    assert not any(looks(file))
    (tmp_path / "file").write_text("one")

    assert [False, True] == looks(file, 2)


def test_noted_content_is_known(path: Path) -> None:
    """A change that was read already is not reported."""
    file = noted(path)
    path.write_text("two")
    file.note()

    assert not any(looks(file))


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    """Reading it would take its content from another reader, or wait forever."""
    os.mkfifo(tmp_path / "pipe")

    assert not any(looks(noted(tmp_path / "pipe")))
