"""Bodies wait in memory up to a limit."""

import asyncio

from gateway.picker.chunks import MAX_BYTES, Chunks


async def test_chunks_that_wait_are_read_together() -> None:
    chunks = Chunks()
    for data in (b"ab", b"", b"c"):
        await chunks.put(data)

    assert (False, b"abc", True) == (chunks.is_empty, await chunks.get(), chunks.is_empty)


async def test_the_end_wakes_the_reader() -> None:
    """Chunks after the end are ignored: some versions of Envoy end a long body twice."""
    chunks = Chunks()
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(chunks.get())
        await asyncio.sleep(0)
        chunks.end()
    await chunks.put(b"late")

    assert (b"", True, True) == (read.result(), chunks.ended, chunks.is_empty)


async def test_a_writer_waits_while_too_much_is_unread() -> None:
    """Until it is read, or dropped."""
    for free in (Chunks.get, Chunks.discard):
        chunks = Chunks()
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(chunks.put(b"x" * (MAX_BYTES + 1)))
            await asyncio.sleep(0)
            assert not writing.done()
            freed = free(chunks)
            if freed is not None:
                await freed

        assert chunks.is_empty


async def test_dropped_chunks_are_never_read() -> None:
    chunks = Chunks()
    await chunks.put(b"a")
    chunks.discard()
    await chunks.put(b"b")
    chunks.end()

    assert b"" == await chunks.get()
