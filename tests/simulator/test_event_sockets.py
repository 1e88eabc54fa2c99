import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import uvloop
import zmq.asyncio

from simulator.event_log import Batch, EventLog
from simulator.event_options import EventOptions
from simulator.event_sockets import EventSockets
from tests.simulator.listener import END, TIMEOUT_S, free_port, replayed

pytestmark = pytest.mark.e2e

ZERO, ONE, TWO = ((number).to_bytes(8, "big") for number in range(3))


@contextmanager
def opened(options: EventOptions, log: EventLog | None = None, *, host: str = "127.0.0.1") -> Iterator[EventSockets]:
    log = log or EventLog()
    with closing(EventSockets(options, host=host, replay=log.since)) as sockets:
        sockets.open()
        yield sockets


def a_log(batches: int) -> EventLog:
    log = EventLog()
    for number in range(batches):
        log.add(b"%d" % number)
    return log


async def heard(sockets: EventSockets, subscriber: "zmq.asyncio.Socket", *batches: Batch) -> list[list[bytes]]:
    """What comes of *batches*, sent after the subscription has arrived."""
    async with asyncio.timeout(TIMEOUT_S):
        while not await subscriber.poll(20):
            sockets.send(Batch(99, b"is anybody there"))
        sockets.send(Batch(100, b"now"))
        while (await subscriber.recv_multipart())[2] != b"now":
            pass
        for batch in batches:
            sockets.send(batch)
        return [await subscriber.recv_multipart() for _ in batches]


async def test_a_message_has_three_frames() -> None:
    """Topic, sequence and payload; the port is the system's, and reported."""
    options = EventOptions(topic="kv@a")
    with opened(options) as sockets, zmq.asyncio.Context() as context, context.socket(zmq.SUB) as subscriber:
        subscriber.subscribe(b"kv@")
        subscriber.connect(sockets.endpoint)

        assert [[b"kv@a", ONE, b"x"], [b"kv@a", TWO, b""]] == await heard(
            sockets, subscriber, Batch(1, b"x"), Batch(2, b"")
        )
        assert (None, f"tcp://127.0.0.1:{sockets.port}") == (sockets.replay_endpoint, sockets.endpoint)


async def test_the_publisher_dials_out() -> None:
    """The subscriber is bound, and may come later."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with (
        opened(EventOptions(dial=endpoint)) as sockets,
        zmq.asyncio.Context() as context,
        context.socket(zmq.SUB) as subscriber,
    ):
        subscriber.subscribe(b"")
        subscriber.bind(endpoint)

        assert [[b"", ZERO, b"x"]] == await heard(sockets, subscriber, Batch(0, b"x"))
        assert endpoint == sockets.endpoint


async def test_a_replay_reports_the_topic() -> None:
    """All from the number on, then a mark that has none."""
    with opened(EventOptions(topic="t", replay_port=0), a_log(3)) as sockets:
        assert sockets.replay_endpoint is not None
        frames = await replayed(sockets.replay_endpoint, 1)

    assert [[b"", b"t", ONE, b"1"], [b"", b"t", TWO, b"2"], [b"", b"", END, b""]] == frames


async def test_an_older_replay_has_no_topic() -> None:
    with opened(EventOptions(topic="t", replay_port=0, replay_frames=3), a_log(1)) as sockets:
        assert sockets.replay_endpoint is not None
        frames = await replayed(sockets.replay_endpoint, 0)

    assert [[b"", ZERO, b"0"], [b"", END, b""]] == frames


async def test_a_long_replay_is_whole() -> None:
    """More batches than ZMQ queues by itself, asked for twice."""
    with opened(EventOptions(replay_port=0), a_log(10_000)) as sockets:
        assert sockets.replay_endpoint is not None
        for first in (0, 5000):
            frames = await replayed(sockets.replay_endpoint, first)
            assert list(range(first, 10_000)) == [int.from_bytes(frame[2], "big") for frame in frames[:-1]]


async def test_a_question_that_is_not_one_is_not_answered() -> None:
    """The next one of the same client is."""
    with (
        opened(EventOptions(replay_port=0), a_log(1)) as sockets,
        zmq.asyncio.Context() as context,
        context.socket(zmq.DEALER) as asking,
    ):
        assert sockets.replay_endpoint is not None
        asking.connect(sockets.replay_endpoint)
        for frames in ((ZERO,), (b"", b"short"), (b"", ZERO, b""), (b"", ONE)):
            await asking.send_multipart(frames)
        async with asyncio.timeout(TIMEOUT_S):
            assert [b"", b"", END, b""] == await asking.recv_multipart()


async def test_closed_sockets_open_on_the_same_ports() -> None:
    """Anyone who listened is connected again; what is sent meanwhile is lost, quietly."""
    with (
        opened(EventOptions(replay_port=0), a_log(1)) as sockets,
        zmq.asyncio.Context() as context,
        context.socket(zmq.SUB) as subscriber,
    ):
        subscriber.subscribe(b"")
        subscriber.connect(sockets.endpoint)
        await heard(sockets, subscriber)
        before = (sockets.endpoint, sockets.replay_endpoint)
        sockets.close()
        sockets.send(Batch(0, b"lost"))
        sockets.open()

        assert [[b"", ONE, b"x"]] == await heard(sockets, subscriber, Batch(1, b"x"))
        assert before == (sockets.endpoint, sockets.replay_endpoint)
        assert 2 == len(await replayed(sockets.replay_endpoint or "", 0))


@pytest.mark.parametrize(("host", "reported"), [("0.0.0.0", "*"), ("127.0.0.1", "127.0.0.1")])
async def test_all_interfaces_are_reported_as_a_wildcard(host: str, reported: str) -> None:
    with opened(EventOptions(replay_port=0), host=host) as sockets:
        assert (f"tcp://{reported}:{sockets.port}", f"tcp://{reported}:{sockets.replay_port}") == (
            sockets.endpoint,
            sockets.replay_endpoint,
        )


async def test_an_address_of_six_groups_is_in_brackets() -> None:
    with opened(EventOptions(), host="::1") as sockets:
        assert f"tcp://[::1]:{sockets.port}" == sockets.endpoint


async def test_an_address_in_use_is_an_error() -> None:
    """It names the address; nothing stays open."""
    with opened(EventOptions()) as sockets:
        second = EventSockets(EventOptions(replay_port=sockets.port), host="127.0.0.1", replay=EventLog().since)
        with pytest.raises(OSError, match="Address already in use") as caught:
            second.open()

    assert sockets.endpoint == caught.value.filename


def test_it_runs_on_uvloop_as_well() -> None:
    """Replays are answered there too: the program runs on it."""

    async def ask() -> int:
        with opened(EventOptions(replay_port=0), a_log(2000)) as sockets:
            return len(await replayed(sockets.replay_endpoint or "", 0))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert 2001 == runner.run(ask())
