"""Facts about the event streams of open pages."""

import asyncio
from collections.abc import Mapping

from gateway.api.admin_access import AdminKey
from gateway.console.events import EventStreams, event
from gateway.console.sessions import MAX_STREAMS, Session
from tests.gateway.examples import Clock


class Stopping:
    is_requested = False


def a_session() -> Session:
    return Session(AdminKey("ow", "owner", "s"), "csrf", created_at=0, used_at=0, digest=b"")


def is_live(session: Session) -> bool:
    return not session.ended.is_set()


class Parts:
    """Live parts of a page that a test changes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.html = {"a": "<p>1</p>", "b": "<p>2</p>"}

    async def __call__(self) -> Mapping[str, str]:
        return dict(self.html)


async def test_changed_parts_are_sent() -> None:
    clock, session = Clock(), a_session()
    parts = Parts(clock)
    stream = EventStreams(is_live=is_live, clock=clock).stream(session, parts, interval_s=0.001, stop=None)

    assert [
        b'event: part\ndata: {"name":"a","html":"<p>1</p>"}\n\n',
        b'event: part\ndata: {"name":"b","html":"<p>2</p>"}\n\n',
    ] == [await anext(stream), await anext(stream)]
    parts.html["b"] = "<p>3</p>"
    clock.now += 1
    assert b'event: part\ndata: {"name":"b","html":"<p>3</p>"}\n\n' == await anext(stream)
    clock.now += 15
    assert b": still here\n\n" == await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]


async def test_a_stream_ends_with_its_session() -> None:
    session = a_session()
    streams = EventStreams(is_live=is_live, clock=Clock())
    stream = streams.stream(session, Parts(Clock()), interval_s=1000, stop=None)
    await anext(stream)
    await anext(stream)
    assert 1 == session.streams
    asyncio.get_running_loop().call_later(0.01, session.ended.set)
    async with asyncio.timeout(60):  # at once, and not when the next look is due
        rest = [each async for each in stream]

    assert ([b"event: ended\ndata: {}\n\n"], 0) == (rest, session.streams)


async def test_a_stream_ends_when_the_server_stops() -> None:
    stop = Stopping()
    stop.is_requested = True
    stream = EventStreams(is_live=is_live, clock=Clock()).stream(a_session(), Parts(Clock()), interval_s=1, stop=stop)

    assert [] == [each async for each in stream]


async def test_the_streams_of_a_session_are_few() -> None:
    session, other = a_session(), a_session()
    streams = EventStreams(is_live=is_live, clock=Clock())
    opened = [streams.stream(session, Parts(Clock()), interval_s=1, stop=None) for _ in range(MAX_STREAMS)]
    for stream in opened:
        await anext(stream)
    assert (False, True) == (streams.has_room(session), streams.has_room(other))
    await opened[0].aclose()  # type: ignore[attr-defined]

    assert streams.has_room(session)
    for stream in opened[1:]:
        await stream.aclose()  # type: ignore[attr-defined]


def test_an_event_is_one_line() -> None:
    assert b'event: part\ndata: {"html":"a\\nb\\r\\n"}\n\n' == event("part", {"html": "a\nb\r\n"})
