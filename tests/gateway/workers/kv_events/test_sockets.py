"""Our ends of the engines' sockets."""

import asyncio
import re
from pathlib import Path

import pytest
import zmq.asyncio

from gateway.workers.kv_events.connection import Link
from gateway.workers.kv_events.frames import replay_request
from gateway.workers.kv_events.sockets import Dialed, replay, subscription
from gateway.workers.kv_events.zmtp import ReadProgress
from tests.fakes.event_publisher import event_publisher
from tests.gateway.workers.kv_events.examples import WAIT_S

pytestmark = pytest.mark.e2e


async def step(opened: Dialed) -> list[bytes] | Link:
    """The next message, or news of a connection."""
    async with asyncio.timeout(WAIT_S):
        while isinstance(found := opened.read(), ReadProgress):
            if found is ReadProgress.IDLE:
                await opened.ready()
    return found


def timers(*, to_port: int) -> list[str]:
    """KIND:DUE of the kernel's timer of each open connection to a port of this host (Linux's proc_net_tcp.rst)."""
    tables = [Path("/proc/net/tcp").read_text(), Path("/proc/net/tcp6").read_text()]
    lines = [line.split() for table in tables for line in table.splitlines()[1:]]
    return [line[5] for line in lines if line[2].endswith(f":{to_port:04X}") and line[3] == "01"]


async def test_what_is_published_is_read(context: zmq.asyncio.Context) -> None:
    """Under topics that begin with the given one."""
    async with event_publisher(context) as engine, subscription(engine.endpoint, topic="kv@") as opened:
        assert Link.UP is await step(opened)
        assert ReadProgress.IDLE is opened.read()
        found: object = ReadProgress.IDLE
        async with asyncio.timeout(WAIT_S):
            while isinstance(found, ReadProgress):
                await engine.send([b"other", b"1"])
                await engine.send([b"kv@a", b"2"])
                await asyncio.sleep(0.01)
                found = opened.read()

        assert [b"kv@a", b"2"] == found


async def test_an_end_of_a_connection_is_read(context: zmq.asyncio.Context) -> None:
    """Behind its last message, and before the next connection; anyone who comes late is found."""
    news: list[list[bytes] | Link] = []
    async with event_publisher(context) as engine:
        endpoint = engine.endpoint
    async with subscription(endpoint) as opened:
        for said in ([b"first"], [b"second"]):
            async with event_publisher(context, endpoint=endpoint) as engine, asyncio.timeout(WAIT_S):
                while said not in news:
                    await engine.send(said)
                    await asyncio.sleep(0.01)
                    if not isinstance(found := opened.read(), ReadProgress):
                        news.append(found)
            while news[-1] is not Link.DOWN:
                news.append(await step(opened))
    links = [each for each in news if isinstance(each, Link)]
    reported = "".join(["^" if each is Link.UP else "$" if each is Link.DOWN else each[0].decode()[0] for each in news])

    assert [Link.UP, Link.DOWN] * (len(links) // 2) == links
    assert re.fullmatch(r"(\^\$)*\^f+\$(\^\$)*\^s+\$", reported)


async def test_a_replay_is_read(context: zmq.asyncio.Context) -> None:
    """With its end."""
    async with event_publisher(context) as engine:
        for payload in (b"a", b"b", b"c"):
            engine.keep(payload)
        async with replay(engine.replay_endpoint, replay_request(1)) as opened:
            assert ReadProgress.IDLE is opened.read()
            assert Link.UP is await step(opened)
            answers = [await step(opened) for _ in range(3)]

    assert [[b"", b"", b"\0" * 7 + b"\1", b"b"], [b"", b"", b"\0" * 7 + b"\2", b"c"]] == answers[:2]
    assert [b"", b"", b"\xff" * 8, b""] == answers[2]


async def test_a_file_can_be_dialed(context: zmq.asyncio.Context, tmp_path: Path) -> None:
    async with (
        event_publisher(context, endpoint=f"ipc://{tmp_path}/kv") as engine,
        subscription(engine.endpoint) as opened,
    ):
        assert Link.UP is await step(opened)


@pytest.mark.parametrize("endpoint", ["", "nonsense://x", "tcp://nowhere", "tcp://:1", "tcp://a:0", "ipc://"])
async def test_what_is_no_address(endpoint: str) -> None:
    """The error says so at once, and how one is written."""
    with pytest.raises(ValueError, match="is not a valid address"):
        async with subscription(endpoint):
            pass


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="tells of timers on Linux only")
async def test_the_host_of_a_silent_engine_is_asked_whether_it_is_there(context: zmq.asyncio.Context) -> None:
    """TCP itself asks, within five seconds: its timer, of the kind 02, runs on the gateway's connection to the
    engine."""
    async with event_publisher(context) as engine, subscription(engine.endpoint) as opened:
        assert Link.UP is await step(opened)

        kind = "01"
        async with asyncio.timeout(WAIT_S):
            while kind == "01":  # of what was sent, until the host has confirmed it
                await asyncio.sleep(0.01)
                (timer,) = timers(to_port=int(engine.endpoint.rpartition(":")[2]))
                kind, due = timer.split(":")

    assert "02" == kind
    assert int(due, 16) <= 500  # hundredths of a second
