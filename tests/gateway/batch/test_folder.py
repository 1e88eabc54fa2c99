import os
from pathlib import Path

import pytest

from gateway.batch.folder import Folder
from gateway.protocol.errors import FilesUnavailable
from tests.gateway.batch.examples import names_in


async def test_a_content_is_visible_when_it_is_complete(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "files")
    await folder.open()
    writer = folder.writer("file-1")
    await writer.write(b"one ")
    with pytest.raises(FilesUnavailable, match="not in the folder of this gateway"):
        folder.content_of("file-1")
    await writer.write(b"two")
    await writer.keep()
    await writer.discard()

    assert b"one two" == folder.content_of("file-1").read_bytes()
    assert ["file-1"] == names_in(folder.path)
    assert 0o700 == folder.path.stat().st_mode & 0o777


async def test_a_discarded_content_leaves_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    writer = folder.writer("file-1")
    await writer.write(b"one")
    await writer.discard()

    assert [] == names_in(tmp_path)


async def test_an_empty_content_can_be_kept(tmp_path: Path) -> None:
    writer = Folder(tmp_path).writer("file-1")
    await writer.keep()

    assert b"" == (tmp_path / "file-1").read_bytes()


async def test_a_removed_content_is_gone(tmp_path: Path) -> None:
    (tmp_path / "file-1").touch()
    folder = Folder(tmp_path)
    await folder.remove("file-1")
    await folder.remove("file-1")

    assert [] == names_in(tmp_path)


async def test_only_old_incomplete_contents_are_deleted(tmp_path: Path) -> None:
    for name, written_at in (("file-1.ab.partial", 1000), ("file-2.cd.partial", 2000), ("file-3", 1000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (written_at, written_at))
    folder = Folder(tmp_path)
    await folder.remove_partial(1500 + 86_400)

    assert ["file-2.cd.partial", "file-3"] == names_in(tmp_path)
    await Folder(tmp_path / "missing").remove_partial(0)


async def test_a_folder_that_cannot_be_used_is_named_as_the_cause(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    folder = Folder(tmp_path / "plain")

    with pytest.raises(FilesUnavailable, match="The folder of files cannot be used: File exists"):
        await folder.open()
    with pytest.raises(FilesUnavailable, match="Not a directory"):
        await folder.writer("file-1").write(b"x")
    with pytest.raises(FilesUnavailable, match="Not a directory"):
        await folder.remove("file-1")
