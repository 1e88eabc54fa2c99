"""One backend asked, up to the first useful byte of its answer."""

import asyncio

import pytest

from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import ReplyBroken, UpstreamRefused, UpstreamTimeout
from gateway.protocol.sse import ChunkObserver, StreamObserver
from gateway.proxy.attempt import Attempt, ask
from tests.fakes.backends import Answers, BreaksAfter, Fake, Hangs, Streams
from tests.gateway.examples import DONE, ERROR, HELLO, WHOLE, WORLD, a_call

CHAT = ENDPOINTS["/v1/chat/completions"]


def an_observer() -> StreamObserver:
    return ChunkObserver(strip_usage=False)


async def asked(backend: Fake, *, streams: bool = False, first_byte_s: float | None = None) -> Attempt:
    return await ask(backend, a_call(streams=streams), CHAT, an_observer, first_byte_s=first_byte_s)


async def test_an_answer_without_a_stream_is_returned_complete() -> None:
    """Its reply is still open: the caller of `ask` closes it."""
    backend = Answers(200, WHOLE[:9], WHOLE[9:])
    attempt = await asked(backend)

    assert (200, WHOLE, None) == (attempt.status, attempt.first, attempt.observer)
    assert not backend.replies[0].closed


async def test_a_stream_is_there_with_its_first_event() -> None:
    attempt = await asked(Streams(HELLO, WORLD, DONE), streams=True)

    assert HELLO == attempt.first
    assert attempt.observer is not None
    assert not attempt.reply.ended


@pytest.mark.parametrize(
    ("backend", "streams", "fault"),
    [
        (Answers(500), False, UpstreamRefused),
        (BreaksAfter(1, WHOLE), False, ReplyBroken),
        (Streams(ERROR), True, ReplyBroken),
        (Streams(HELLO), True, ReplyBroken),
    ],
)
async def test_the_reply_of_a_failure_is_closed(backend: Fake, streams: bool, fault: type[Exception]) -> None:
    with pytest.raises(fault):
        await asked(backend, streams=streams)

    assert [True] == [reply.closed for reply in backend.replies]


async def test_the_reply_of_a_cancelled_attempt_is_closed() -> None:
    backend = Hangs(HELLO[:5])
    asking = asyncio.ensure_future(asked(backend, streams=True))
    await backend.hanging.wait()
    asking.cancel()
    await asyncio.wait([asking])

    assert [True] == [reply.closed for reply in backend.replies]


async def test_the_first_byte_timeout_is_passed_on() -> None:
    with pytest.raises(UpstreamTimeout):
        await asked(Hangs(), streams=True, first_byte_s=0.01)
