"""Our ends of the engines' sockets."""

import asyncio
from pathlib import Path

import pytest
import zmq
import zmq.asyncio

from gateway.kv_events.frames import replay_request
from gateway.kv_events.sockets import Link, Replay, Subscription, replay, subscription
from tests.fakes.event_publisher import event_publisher
from tests.gateway.kv_events.examples import WAIT_S

pytestmark = pytest.mark.e2e


async def link(opened: Subscription) -> Link:
    """The next news of a connection."""
    async with asyncio.timeout(WAIT_S):
        while (news := opened.read_link()) is None:
            await opened.ready()
    return news


async def message(opened: Subscription | Replay) -> list[bytes]:
    """The next message."""
    async with asyncio.timeout(WAIT_S):
        while (frames := opened.read()) is None:
            await opened.ready()
    return frames


def timers(*, to_port: int) -> list[str]:
    """KIND:DUE of the kernel's timer of each open connection to a port of this host (Linux's proc_net_tcp.rst)."""
    tables = [Path("/proc/net/tcp").read_text(), Path("/proc/net/tcp6").read_text()]
    lines = [line.split() for table in tables for line in table.splitlines()[1:]]
    return [line[5] for line in lines if line[2].endswith(f":{to_port:04X}") and line[3] == "01"]


async def test_what_is_published_is_read(context: zmq.asyncio.Context) -> None:
    """Under topics that begin with the given one."""
    async with event_publisher(context) as engine:
        with subscription(context, topic="kv@") as opened:
            opened.connect(engine.endpoint)
            assert Link.UP is await link(opened)
            assert opened.read() is None
            frames = None
            async with asyncio.timeout(WAIT_S):
                while frames is None:
                    await engine.send([b"other", b"1"])
                    await engine.send([b"kv@a", b"2"])
                    await asyncio.sleep(0.01)
                    frames = opened.read()

            assert [b"kv@a", b"2"] == frames


async def test_an_end_of_a_connection_is_read(context: zmq.asyncio.Context) -> None:
    """And the next beginning."""
    with subscription(context) as opened:
        async with event_publisher(context) as engine:
            opened.connect(engine.endpoint)
            assert Link.UP is await link(opened)
        assert Link.DOWN is await link(opened)
        async with event_publisher(context, endpoint=engine.endpoint):
            assert Link.UP is await link(opened)
            assert opened.read_link() is None


async def test_a_replay_is_read(context: zmq.asyncio.Context) -> None:
    """With its end."""
    async with event_publisher(context) as engine:
        for payload in (b"a", b"b", b"c"):
            engine.keep(payload)
        with replay(context) as opened:
            assert opened.read() is None
            await opened.ask(engine.replay_endpoint, replay_request(1))
            answers = [await message(opened) for _ in range(3)]

    assert [[b"", b"", b"\0" * 7 + b"\1", b"b"], [b"", b"", b"\0" * 7 + b"\2", b"c"]] == answers[:2]
    assert [b"", b"", b"\xff" * 8, b""] == answers[2]


@pytest.mark.parametrize("endpoint", ["", "nonsense://x", "tcp://nowhere"])
async def test_what_is_no_address(context: zmq.asyncio.Context, endpoint: str) -> None:
    """ZMQ says so at once."""
    with subscription(context) as opened, pytest.raises(zmq.ZMQError):
        opened.connect(endpoint)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="tells of timers on Linux only")
async def test_the_host_of_a_silent_engine_is_asked_whether_it_is_there(context: zmq.asyncio.Context) -> None:
    """By TCP itself, within five seconds: its timer, of the kind 02, runs on our connection to the engine."""
    async with event_publisher(context) as engine:
        with subscription(context) as opened:
            opened.connect(engine.endpoint)
            assert Link.UP is await link(opened)

            (timer,) = timers(to_port=int(engine.endpoint.rpartition(":")[2]))
            kind, due = timer.split(":")

    assert "02" == kind
    assert int(due, 16) <= 500  # hundredths of a second
