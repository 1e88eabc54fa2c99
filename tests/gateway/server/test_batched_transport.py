import asyncio

from gateway.server.batched_transport import BatchedTransport


class Written(asyncio.Transport):
    """Notes what reaches it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.pieces: list[bytes] = []
        self.ended: str | None = None
        self.reads = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def write_eof(self) -> None:
        self.ended = "half closed"

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.ended is not None

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def get_write_buffer_size(self) -> int:
        return 100


async def batched() -> tuple[BatchedTransport, Written]:
    written = Written()
    return BatchedTransport(written, asyncio.get_running_loop()), written


async def test_nothing_is_written_to_a_peer_that_has_gone() -> None:
    """For uvloop that is an error, and it is nobody's fault."""
    transport, written = await batched()
    transport.write(b"late")
    written.ended = "reset by the peer"
    await asyncio.sleep(0)

    assert [] == written.pieces


async def test_what_is_written_in_one_turn_of_the_loop_leaves_in_one_piece() -> None:
    """Head and body of an answer."""
    transport, written = await batched()
    transport.write(b"head ")
    transport.write(bytearray(b"body"))

    assert [] == written.pieces

    await asyncio.sleep(0)

    assert [b"head body"] == written.pieces


async def test_the_next_turn_leaves_as_the_next_piece() -> None:
    """Events of a stream are not kept for one another."""
    transport, written = await batched()
    transport.write(b"one")
    await asyncio.sleep(0)
    transport.write(b"two")
    await asyncio.sleep(0)

    assert [b"one", b"two"] == written.pieces


async def test_closing_sends_what_is_held_first() -> None:
    """An answer with `connection: close` arrives whole."""
    transport, written = await batched()
    transport.write(b"last")
    transport.close()

    assert [b"last"] == written.pieces
    assert written.ended == "closed"
    assert transport.is_closing()


async def test_an_end_of_writing_comes_after_what_is_held() -> None:
    """A refusal is read by the peer before the connection goes."""
    transport, written = await batched()
    transport.write(b"last")
    transport.write_eof()

    assert transport.can_write_eof()
    assert ([b"last"], "half closed") == (written.pieces, written.ended)


async def test_aborting_sends_nothing() -> None:
    """Nothing is written to a connection that is given up."""
    transport, written = await batched()
    transport.write(b"lost")
    transport.abort()
    await asyncio.sleep(0)

    assert [] == written.pieces
    assert written.ended == "aborted"


async def test_the_rest_is_the_wrapped_transports() -> None:
    """Reading, back-pressure and what is known of the peer."""
    transport, _ = await batched()
    transport.write(b"12345")
    transport.pause_reading()

    assert not transport.is_reading()

    transport.resume_reading()

    assert transport.is_reading()
    assert 105 == transport.get_write_buffer_size()
    assert ("127.0.0.1", 1) == transport.get_extra_info("peername")
