"""Streams that could go on at another worker."""

import pytest

from cache_index import WorkerId
from gateway.models.open_streams import OpenStreams
from gateway.protocol.errors import HandedOver
from tests.fakes.backends import EVENTS, ScriptedReply

A, B = WorkerId("a"), WorkerId("b")


def a_reply() -> ScriptedReply:
    return ScriptedReply(200, EVENTS, [b"data: 1\n\n"])


async def test_the_streams_of_one_worker_are_handed_over() -> None:
    """Those of another go on, and so do those that ended before."""
    streams = OpenStreams()
    here, ended, elsewhere = a_reply(), a_reply(), a_reply()
    streams.opened(A, here)
    streams.opened(A, ended)
    streams.opened(B, elsewhere)
    streams.closed(A, ended)

    assert 1 == streams.hand_over(A)
    with pytest.raises(HandedOver):
        await here.read()
    assert b"data: 1\n\n" == await ended.read() == await elsewhere.read()


def test_closing_what_was_not_opened_is_no_fault() -> None:
    streams = OpenStreams()
    streams.closed(A, a_reply())

    assert 0 == streams.hand_over(A)
