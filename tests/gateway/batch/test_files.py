import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.batch import files as module
from gateway.batch.files import FileInfo, Files, TeamFile, check_upload_type, expiry_s
from gateway.protocol.errors import (
    AtCapacity,
    BodyTooLarge,
    GatewayError,
    InvalidField,
    MalformedBody,
    QuotaSpent,
    UnknownFile,
)
from tests.gateway.batch.examples import NOW, TYPE, a_form, content_of, in_pieces, names_in, some_files
from tests.gateway.examples import Clock


async def uploaded(files: Files, content: bytes = b"{}\n", team: str = "blue", **fields: str) -> TeamFile:
    return await files.upload(team, TYPE, in_pieces(a_form(content, **fields)))


async def ids(files: Files, **query: object) -> tuple[list[str], bool]:
    usual = {"after": None, "limit": 100, "newest_first": True, "purpose": None}
    found, has_more = await files.page("blue", **{**usual, **query})  # type: ignore[arg-type]
    return [file.id for file in found], has_more


async def test_an_uploaded_file_is_kept_with_its_properties(tmp_path: Path) -> None:
    async with some_files(tmp_path) as files:
        file = await uploaded(files, b"{}\n{}")

        expected = FileInfo("a.jsonl", "batch", 5, 2, 1_763_700_000, 1_763_707_200)
        assert TeamFile(file.id, "blue", expected) == await files.find("blue", file.id) == file
        assert b"{}\n{}" == await content_of(files, "blue", file.id)
        assert [file.id] == names_in(tmp_path)


async def test_a_large_upload_is_written_in_pieces(tmp_path: Path) -> None:
    content = b"x" * 3_000_000
    async with some_files(tmp_path, max_file_bytes=3_000_000, max_team_bytes=3_000_000) as files:
        file = await files.upload("blue", TYPE, in_pieces(a_form(content), 65_536))

        assert content == await content_of(files, "blue", file.id)


async def test_a_file_of_another_team_does_not_exist(tmp_path: Path) -> None:
    async with some_files(tmp_path) as files:
        file = await uploaded(files)

        for act in (files.find, files.remove):
            with pytest.raises(UnknownFile):
                await act("red", file.id)
        assert b"{}\n" == await content_of(files, "blue", file.id)


async def test_the_caller_chooses_when_a_file_expires(tmp_path: Path) -> None:
    clock = Clock(NOW)
    async with some_files(tmp_path, clock) as files:
        fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
        file = await uploaded(files, b"{}\n", **fields)
        assert 1_763_703_600 == file.info.expires_at
        other = await uploaded(files)
        clock.now = NOW + 3600

        with pytest.raises(UnknownFile):
            await files.find("blue", file.id)
        assert ([other.id], False) == await ids(files)
        await files.sweep()
        assert [other.id] == names_in(tmp_path)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"purpose": "fine-tune"}, "purpose"),
        ({"expires_after[anchor]": "now", "expires_after[seconds]": "3600"}, "expires_after.anchor"),
        ({"expires_after[anchor]": "created_at"}, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "3599"}, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "9" * 5000}, "expires_after.seconds"),
        ({"color": "red"}, "color"),
    ],
)
async def test_an_invalid_field_is_named_and_nothing_is_kept(
    tmp_path: Path, fields: dict[str, str], param: str
) -> None:
    async with some_files(tmp_path) as files:
        with pytest.raises((InvalidField, MalformedBody)) as refusal:
            await uploaded(files, b"{}\n", **fields)

    if len(max(fields.values(), key=len)) < 4096:
        assert param == refusal.value.param
    assert [] == names_in(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * 1001, "more than 1000 bytes"),
        (b"\n" * 11, "more than 10 lines"),
        (b"\n" * 10 + b"x", "more than 10 lines"),
    ],
)
async def test_a_file_over_a_limit_is_refused_and_not_kept(tmp_path: Path, content: bytes, message: str) -> None:
    async with some_files(tmp_path) as files:
        with pytest.raises(BodyTooLarge, match=message):
            await uploaded(files, content)

    assert [] == names_in(tmp_path)


async def test_files_at_a_limit_are_kept(tmp_path: Path) -> None:
    async with some_files(tmp_path) as files:
        assert 1000 == (await uploaded(files, b"x" * 1000)).info.bytes
        assert 10 == (await uploaded(files, b"\n" * 9 + b"x")).info.lines


async def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    async with some_files(tmp_path) as files:
        with pytest.raises(InvalidField, match="must not be empty"):
            await uploaded(files, b"")


async def test_a_team_keeps_only_so_many_bytes(tmp_path: Path) -> None:
    async with some_files(tmp_path) as files:
        first = await uploaded(files, b"x" * 1000)
        await uploaded(files, b"x" * 1000)
        with pytest.raises(QuotaSpent, match="no room for the file"):
            await uploaded(files)
        assert 2 == len(names_in(tmp_path))

        await files.remove("blue", first.id)
        await uploaded(files)
        assert 2 == len(names_in(tmp_path))


async def test_a_caller_who_leaves_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield a_form(b"x" * 100)[:150]
        raise ConnectionResetError

    async with some_files(tmp_path) as files:
        with pytest.raises(ConnectionResetError):
            await files.upload("blue", TYPE, broken())

    assert [] == names_in(tmp_path)


async def test_a_gateway_receives_only_so_many_files_at_once(tmp_path: Path) -> None:
    leave = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield a_form(b"x")[:50]
        await leave.wait()
        yield a_form(b"x")[50:]

    async with some_files(tmp_path, max_team_files=20) as files, asyncio.TaskGroup() as tasks:
        for _ in range(module.UPLOADS):
            tasks.create_task(files.upload("blue", TYPE, slow()))
        await asyncio.sleep(0)
        with pytest.raises(AtCapacity):
            await uploaded(files)
        leave.set()


async def test_lists_are_in_pages(tmp_path: Path) -> None:
    async with some_files(tmp_path) as files:
        a, b, c = [(await uploaded(files)).id for _ in range(3)]

        assert ([c, b, a], False) == await ids(files)
        assert ([c, b], True) == await ids(files, limit=2)
        assert ([a], False) == await ids(files, limit=2, after=b)
        assert ([b, c], False) == await ids(files, after=a, newest_first=False)
        assert ([], False) == await ids(files, purpose="batch_output")
        with pytest.raises(InvalidField) as refusal:
            await ids(files, after="file-x")
    assert "after" == refusal.value.param


async def test_a_page_of_one_purpose_skips_the_others(tmp_path: Path) -> None:
    async with some_files(tmp_path) as files:
        info = FileInfo("out", "batch_output", 1, 1, int(NOW), int(NOW) + 9999)
        await files.add("blue", "file-1", info)
        for _ in range(3):
            await uploaded(files)
        await files.add("blue", "file-2", info)

        assert (["file-2"], True) == await ids(files, purpose="batch_output", limit=1)
        assert (["file-2", "file-1"], False) == await ids(files, purpose="batch_output", limit=2)


async def test_a_removed_file_is_gone(tmp_path: Path) -> None:
    async with some_files(tmp_path) as files:
        file = await uploaded(files)
        await files.remove("blue", file.id)

        assert [] == names_in(tmp_path)
        with pytest.raises(UnknownFile):
            await files.remove("blue", file.id)


@pytest.mark.parametrize(
    ("content_type", "encoding"), [(b"application/json", None), (b"", None), (TYPE, b"gzip"), (TYPE, b"br, gzip")]
)
def test_only_plain_forms_are_uploads(content_type: bytes, encoding: bytes | None) -> None:
    with pytest.raises(GatewayError) as refusal:
        check_upload_type(content_type, encoding)

    assert 400 == refusal.value.status


def test_an_expiry_is_a_number_of_seconds() -> None:
    check_upload_type(TYPE, b"identity")
    assert 3600 == expiry_s("created_at", 3600, "output_expires_after")
    for seconds in (True, "3600", 2_592_001, None):
        with pytest.raises(InvalidField):
            expiry_s("created_at", seconds, "output_expires_after")
