"""Bodies wait in memory up to a limit."""

import asyncio

from gateway.picker.chunks import MAX_BYTES, Chunks


async def test_chunks_that_wait_are_read_together() -> None:
    chunks = Chunks(lambda: None)
    for data in (b"ab", b"", b"c"):
        chunks.put(data)

    assert (False, b"abc", True) == (chunks.is_empty, await chunks.get(), chunks.is_empty)


async def test_a_read_waits_until_enough_has_arrived() -> None:
    """The rest of a body before its end is never held back."""
    chunks = Chunks(lambda: None, min_bytes=4)
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(chunks.get())
        for data in (b"abc", b"de"):
            before = read.done()
            chunks.put(data)
            await asyncio.sleep(0)
        chunks.put(b"f")
        chunks.end()

    assert (False, b"abcde", b"f") == (before, read.result(), await chunks.get())


async def test_the_end_wakes_the_reader() -> None:
    """Chunks after the end are ignored: some versions of Envoy end a long body twice."""
    chunks = Chunks(lambda: None)
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(chunks.get())
        await asyncio.sleep(0)
        chunks.end()
    chunks.put(b"late")

    assert (b"", True, True) == (read.result(), chunks.ended, chunks.is_empty)


async def test_a_sender_waits_while_too_much_is_unread() -> None:
    """Until it is read, or dropped. The sender is asked for more only then."""
    for free in (Chunks.get, Chunks.discard):
        asked: list[str] = []
        chunks = Chunks(lambda: asked.append("more"))  # noqa: B023  # called within the round
        chunks.put(b"x" * MAX_BYTES)
        before = chunks.is_full
        chunks.put(b"x")
        full = chunks.is_full
        freed = free(chunks)
        if freed is not None:
            await freed
        chunks.put(b"x")

        assert (False, True, False, ["more"]) == (before, full, chunks.is_full, asked)


async def test_dropped_chunks_are_never_read() -> None:
    chunks = Chunks(lambda: None)
    chunks.put(b"a")
    chunks.discard()
    chunks.put(b"b")
    chunks.end()

    assert b"" == await chunks.get()
