import os
from pathlib import Path

import pytest

from gateway.batch.folder import Folder
from gateway.protocol.errors import FilesUnavailable
from tests.gateway.batch.examples import names_in


async def test_the_folder_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "files")
    await folder.open()

    assert 0o700 == folder.path.stat().st_mode & 0o777


async def test_a_discarded_content_leaves_nothing(tmp_path: Path) -> None:
    writer = Folder(tmp_path).writer("file-1")
    await writer.write(b"one")
    await writer.discard()

    assert [] == names_in(tmp_path)


async def test_outputs_of_a_gateway_are_in_one_file(tmp_path: Path) -> None:
    appender = Folder(tmp_path).appender("batch_1.owner.")
    pieces = [await appender.append(b"one\n"), await appender.append(b"three\n")]
    await appender.close()

    assert [("batch_1.owner.part", 0), ("batch_1.owner.part", 4)] == pieces
    assert b"one\nthree\n" == (tmp_path / "batch_1.owner.part").read_bytes()


async def test_nothing_is_appended_after_the_end(tmp_path: Path) -> None:
    """The thread of a caller that has left could otherwise open the file again."""
    appender = Folder(tmp_path).appender("batch_1.owner.")
    await appender.close()
    with pytest.raises(FilesUnavailable, match="no longer runs lines"):
        await appender.append(b"one\n")

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
    with pytest.raises(FilesUnavailable, match="Not a directory"):
        await folder.appender("batch_1.").append(b"x")


async def test_a_file_that_became_shorter_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "file-1").write_bytes(b"123")

    with pytest.raises(FilesUnavailable, match="shorter than it was"):
        [data async for data in Folder(tmp_path).stream("file-1", 0, 4)]
