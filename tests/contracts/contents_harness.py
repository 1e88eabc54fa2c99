"""Facts about what the package of batches expects of any `Contents`. Subclasses give the storage."""

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from gateway.batch.contents import Contents
from gateway.protocol.errors import ContentMissing

MB = 2**20
A_DAY = 86_400


async def write(contents: Contents, name: str, *data: bytes) -> None:
    writer = contents.writer(name)
    for piece in data:
        await writer.write(piece)
    await writer.keep()
    await writer.discard()


async def streamed(contents: Contents, name: str, start: int, stop: int) -> bytes:
    return b"".join([data async for data in contents.stream(name, start, stop)])


class ContentsContract:
    """Every test gets an empty storage in the fixture ``contents``."""

    async def test_a_content_is_visible_when_it_is_complete(self, contents: Contents) -> None:
        writer = contents.writer("file-1")
        await writer.write(b"one ")
        with pytest.raises(ContentMissing):
            await contents.read("file-1", 0, 10)
        await writer.write(b"two")
        await writer.keep()
        await writer.discard()

        assert b"one two" == await contents.read("file-1", 0, 10)

    async def test_a_large_content_is_written_in_pieces(self, contents: Contents) -> None:
        piece = bytes(range(256)) * 4096
        writer = contents.writer("file-1")
        for _ in range(12):
            await writer.write(piece)
        await writer.write(b"end")
        with pytest.raises(ContentMissing):
            await contents.read("file-1", 0, 10)
        await writer.keep()
        await writer.discard()

        assert piece * 12 + b"end" == await streamed(contents, "file-1", 0, 12 * MB + 3)
        assert piece[-2:] + b"end" == await contents.read("file-1", 12 * MB - 2, 99)

    @pytest.mark.parametrize("size", [1, 7 * MB])
    async def test_a_discarded_content_is_gone(self, contents: Contents, size: int) -> None:
        writer = contents.writer("file-1")
        await writer.write(b"x" * size)
        await writer.discard()
        await contents.remove_partial(time.time() + 2 * A_DAY)

        with pytest.raises(ContentMissing):
            await contents.read("file-1", 0, 1)

    async def test_an_empty_content_can_be_kept(self, contents: Contents) -> None:
        await write(contents, "file-1")

        assert b"" == await contents.read("file-1", 0, 10)
        assert b"" == await streamed(contents, "file-1", 0, 0)

    async def test_a_content_is_replaced_as_a_whole(self, contents: Contents) -> None:
        await write(contents, "file-1", b"a long content")
        await write(contents, "file-1", b"short")

        assert b"short" == await contents.read("file-1", 0, 99)

    async def test_pieces_of_a_content_can_be_read(self, contents: Contents) -> None:
        await write(contents, "file-1", b"0123456789")

        assert b"345" == await contents.read("file-1", 3, 3)
        assert b"89" == await contents.read("file-1", 8, 5)
        assert b"" == await contents.read("file-1", 10, 5)
        assert b"4567" == await streamed(contents, "file-1", 4, 8)

    async def test_a_stream_may_be_left_early(self, contents: Contents) -> None:
        await write(contents, "file-1", b"x" * MB)
        async with aclosing(contents.stream("file-1", 0, MB)) as pieces:
            first = await anext(pieces)

        assert first == b"x" * len(first)
        assert b"x" == await contents.read("file-1", 0, 1)

    async def test_a_missing_content_is_named_so(self, contents: Contents) -> None:
        with pytest.raises(ContentMissing):
            await contents.read("file-1", 0, 1)
        with pytest.raises(ContentMissing):
            await anext(contents.stream("file-1", 0, 1))
        with pytest.raises(ContentMissing):
            await contents.copy("file-1", "file-2")
        with pytest.raises(ContentMissing):
            async with contents.local(["file-1"]):
                pass

    async def test_a_copy_stays_when_the_original_is_removed(self, contents: Contents) -> None:
        await write(contents, "file-1", b"one")
        await contents.copy("file-1", "batch.input")
        await contents.copy("file-1", "batch.input")
        await contents.remove("file-1")

        assert b"one" == await contents.read("batch.input", 0, 10)
        with pytest.raises(ContentMissing):
            await contents.read("file-1", 0, 1)

    async def test_what_is_removed_is_gone(self, contents: Contents) -> None:
        for name in ("batch_1.plan", "batch_1.a.1.part", "batch_10.plan"):
            await write(contents, name, b"x")
        await contents.remove_all("batch_1.")
        await contents.remove("file-1")
        await contents.remove_all("nothing.")

        for name in ("batch_1.plan", "batch_1.a.1.part"):
            with pytest.raises(ContentMissing):
                await contents.read(name, 0, 1)
        assert b"x" == await contents.read("batch_10.plan", 0, 1)

    async def test_an_output_can_be_read_as_soon_as_it_was_appended(self, contents: Contents) -> None:
        appender = contents.appender("batch_1.owner.")
        piece = await appender.append(b"one\n")

        assert piece.part.startswith("batch_1.owner.")
        assert b"one\n" == await contents.read(piece.part, piece.start, 4)
        await appender.close()

    async def test_outputs_of_many_callers_are_all_kept(self, contents: Contents) -> None:
        appenders = [contents.appender(f"batch_1.{owner}.") for owner in "ab"]
        outputs = [b"output %d\n" % number for number in range(40)]
        pieces = await asyncio.gather(*(appenders[n % 2].append(output) for n, output in enumerate(outputs)))
        for appender in appenders:
            await appender.close()
        async with contents.local(sorted({piece.part for piece in pieces})) as found:
            read = [found[p.part].read(p.start, len(output)) for p, output in zip(pieces, outputs, strict=True)]

        assert outputs == read

    async def test_an_output_whose_caller_leaves_does_not_harm_the_others(self, contents: Contents) -> None:
        appender = contents.appender("batch_1.owner.")
        tasks = [asyncio.ensure_future(appender.append(b"output %d\n" % number)) for number in range(8)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[3].cancel()
        pieces = await asyncio.gather(*tasks, return_exceptions=True)
        await appender.close()

        assert [0, 3] == [n for n, piece in enumerate(pieces) if isinstance(piece, asyncio.CancelledError)]
        for number, piece in enumerate(pieces):
            if not isinstance(piece, BaseException):
                assert b"output %d\n" % number == await contents.read(piece.part, piece.start, 9)

    async def test_local_contents_are_files_that_can_be_opened(self, contents: Contents) -> None:
        """A process that validates them inherits their descriptors."""
        await write(contents, "batch_1.input", b"one\ntwo\n")
        async with contents.local(["batch_1.input"]) as found:
            content = found["batch_1.input"]
            read = await asyncio.to_thread(Path(f"/dev/fd/{content.file.fileno()}").read_bytes)

        assert (b"one\ntwo\n", 8) == (read, content.size)
        assert content.file.closed

    async def test_several_local_contents_are_apart(self, contents: Contents) -> None:
        for name in "abcdefghij":
            await write(contents, name, name.encode() * 1000)
        async with contents.local(list("abcdefghij")) as found:
            read = {name: (content.read(0, 2000), content.size) for name, content in found.items()}

        assert {name: (name.encode() * 1000, 1000) for name in "abcdefghij"} == {
            name: (data[:1000], size) for name, (data, size) in read.items()
        }

    async def test_fresh_incomplete_contents_stay(self, contents: Contents) -> None:
        writer = contents.writer("file-1")
        await writer.write(b"x" * 6 * MB)
        await contents.remove_partial(time.time())
        await writer.write(b"y")
        await writer.keep()
        await writer.discard()

        assert b"xy" == await contents.read("file-1", 6 * MB - 1, 5)
