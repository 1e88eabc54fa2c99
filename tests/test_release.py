"""The files of a release: which steps make them, and their checksums."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from deploy.release import checksums, make


def wheel(dist: Path) -> None:
    (dist / "b.whl").write_bytes(b"wheel")


def broken(dist: Path) -> None:
    raise subprocess.CalledProcessError(1, ["buildah"])


def test_a_release_has_the_checksum_of_each_file(tmp_path: Path) -> None:
    make(tmp_path / "dist", [wheel], None)

    digest = hashlib.sha256(b"wheel").hexdigest()
    assert f"{digest}  b.whl\n" == (tmp_path / "dist" / "SHA256SUMS").read_text(encoding="utf-8")


def test_checksums_are_in_the_order_of_names(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b", "a")]
    for path in files:
        path.write_bytes(b"")

    assert ["a", "b"] == [line.split()[1] for line in checksums(files).splitlines()]


def test_files_of_an_earlier_release_are_removed(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "old.whl").write_bytes(b"old")
    make(tmp_path / "dist", [wheel], None)

    assert {"b.whl", "SHA256SUMS"} == {path.name for path in (tmp_path / "dist").iterdir()}


def test_an_image_that_cannot_be_built_is_skipped_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "dist", [wheel], broken)

    assert "Skipped: broken could not be made here." in capsys.readouterr().err
    assert "b.whl" in (tmp_path / "dist" / "SHA256SUMS").read_text(encoding="utf-8")


def test_any_other_step_that_fails_ends_the_release(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        make(tmp_path / "dist", [broken, wheel], None)

    assert [] == list((tmp_path / "dist").iterdir())
