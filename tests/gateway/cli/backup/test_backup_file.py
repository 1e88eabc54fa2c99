"""The file of a backup of Redis."""

import stat
from pathlib import Path

import msgspec
import pytest

from gateway.cli.backup.backup_file import BackupBroken, BackupWriter, Header, read_header, read_records

HEADER = Header("id", "fingerprint", 1, has_pepper=False, written_at="2026-11-21T00:00:00+00:00")


def written(path: Path, *records: object) -> Path:
    with BackupWriter(path, HEADER) as writer:
        for record in records:
            writer.write(record)
        writer.finish()
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "b", [b"name", 1], ["other"])

    assert HEADER == read_header(path)
    assert [[b"name", 1], ["other"]] == [msgspec.msgpack.decode(record) for record in read_records(path)]


def test_its_owner_alone_may_read_it(tmp_path: Path) -> None:
    assert 0o600 == stat.S_IMODE(written(tmp_path / "b").stat().st_mode)


def test_every_byte_counts(tmp_path: Path) -> None:
    """Cut anywhere, changed anywhere, or with something behind it, it is no backup."""
    path = written(tmp_path / "b", ["a record"])
    whole = path.read_bytes()
    damaged = [whole[:size] for size in range(len(whole))]
    damaged += [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(len(whole))]
    for content in (*damaged, whole + b"x"):
        path.write_bytes(content)
        with pytest.raises(BackupBroken, match=r"b is (damaged or incomplete|not a backup of a Redis store)"):
            read_header(path)


def test_what_is_not_finished_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), BackupWriter(tmp_path / "b", HEADER):
        raise ZeroDivisionError
    (tmp_path / "there").write_text("x")
    with pytest.raises(FileExistsError):
        BackupWriter(tmp_path / "there", HEADER)

    assert ["there"] == [path.name for path in tmp_path.iterdir()]
