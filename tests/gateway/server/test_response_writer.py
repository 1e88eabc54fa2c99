import asyncio

from gateway.server.response_writer import ResponseWriter
from gateway.server.shared_state import DateLine


class RecordingTransport(asyncio.Transport):
    """Records what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_closed


def writer_on(transport: RecordingTransport) -> ResponseWriter:
    return ResponseWriter(transport, DateLine(), asyncio.get_running_loop())


async def test_pieces_of_one_iteration_are_written_together() -> None:
    """A large piece, or a piece that cannot wait, takes those before it along."""
    transport = RecordingTransport()
    writer = writer_on(transport)

    writer.write_soon(b"a")
    writer.write_soon(b"b")
    before = list(transport.writes)
    await asyncio.sleep(0)
    writer.write_soon(b"c")
    writer.write(b"d")
    writer.write_soon(b"e")
    writer.write_soon(b"x" * 4097)

    assert [] == before
    assert [b"ab", b"cd", b"e" + b"x" * 4097] == transport.writes


async def test_no_more_than_16_pieces_are_held() -> None:
    transport = RecordingTransport()
    writer = writer_on(transport)

    for _ in range(17):
        writer.write_soon(b"a")

    assert [b"a" * 17] == transport.writes


async def test_nothing_is_written_to_a_closed_transport() -> None:
    """For uvloop, that would be an error."""
    transport = RecordingTransport()
    writer = writer_on(transport)
    writer.write_soon(b"a")
    transport.is_closed = True

    writer.write(b"b")
    writer.write(b"c")

    assert [] == transport.writes


async def test_drain_waits_until_the_client_reads() -> None:
    """One that was cancelled disturbs no other."""
    writer = writer_on(RecordingTransport())
    writer.pause()
    async with asyncio.TaskGroup() as group:
        cancelled, waiting = group.create_task(writer.drain()), group.create_task(writer.drain())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.sleep(0)
        before = waiting.done()
        writer.resume()
        await waiting

    assert (False, True) == (before, writer.is_writable)
