"""The proxy reads an answer from Envoy as from a worker."""

import pytest

from gateway.picker.chunks import Chunks
from gateway.picker.reply import EnvoyReply
from gateway.protocol.errors import HandedOver


async def test_an_answer_ends_when_all_of_it_was_read() -> None:
    chunks = Chunks(lambda: None)
    reply = EnvoyReply(200, [], chunks)
    chunks.put(b"ab")
    chunks.end()
    before = reply.ended
    reply.expect_within(0.0)

    assert (False, b"ab", True, b"") == (before, await reply.read(), reply.ended, await reply.read())


async def test_an_answer_can_be_interrupted() -> None:
    reply = EnvoyReply(200, [], Chunks(lambda: None))
    reply.interrupt(HandedOver("drained"))

    with pytest.raises(HandedOver):
        await reply.read()


async def test_a_closed_answer_needs_no_memory() -> None:
    chunks = Chunks(lambda: None)
    reply = EnvoyReply(200, [], chunks)
    chunks.put(b"ab")
    await reply.aclose()

    assert chunks.is_empty
