"""The port that engines dial to publish KV events: who may, how much of it is kept, and who waits for it."""

import asyncio
import logging
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_network

import pytest
import zmq
import zmq.asyncio

from gateway.settings import SettingsError, build
from gateway.workers.kv_events.connection import Link, Network
from gateway.workers.kv_events.dial_in import DialIn
from gateway.workers.kv_events.loop_share import LoopShare
from gateway.workers.kv_events.publisher_server import LOOPBACK, PublisherServer, ServerLimits, publisher_server
from gateway.workers.kv_events.sockets import replay, subscription
from gateway.workers.kv_events.zmtp import ReadProgress
from tests.fakes.event_publisher import event_publisher

MIB = 2**20
SMALL = ServerLimits(max_connections=2, max_message_bytes=MIB, max_held_bytes=4 * MIB)
GREETING = (b"\xff" + bytes(8) + b"\x7f\x03\x00NULL").ljust(64, b"\0")
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
LONG_PART_THAT_GOES_ON = b"\x03" + struct.pack(">Q", MIB // 2) + bytes(MIB // 2)
EMPTY_PART_THAT_GOES_ON = b"\x01\x00"


@pytest.fixture
async def context() -> AsyncIterator[zmq.asyncio.Context]:
    context = zmq.asyncio.Context()
    yield context
    context.destroy(linger=0)


class Heard:
    def __init__(self, server: PublisherServer) -> None:
        self.server = server
        self.links: list[Link] = []
        self.messages: list[list[bytes]] = []

    def read(self) -> bool:
        """One step; False if there is nothing to read."""
        found = self.server.read()
        if isinstance(found, Link):
            self.links.append(found)
        elif isinstance(found, list):
            self.messages.append(found)
        return found is not ReadProgress.IDLE

    async def run(self) -> None:
        while True:
            await self.server.ready()
            while self.read():
                await asyncio.sleep(0)

    async def until(self, condition: Callable[[], object]) -> None:
        """Read until *condition* holds."""
        async with asyncio.timeout(60):
            while not condition():
                if not self.read():
                    await asyncio.sleep(0.002)


@asynccontextmanager
async def listening(limits: ServerLimits = SMALL, allowed: tuple[Network, ...] = LOOPBACK) -> AsyncIterator[Heard]:
    async with publisher_server("tcp://127.0.0.1:0", allowed=allowed, limits=limits) as server:
        yield Heard(server)


@asynccontextmanager
async def peer(heard: Heard, *sent: bytes) -> AsyncIterator[asyncio.StreamWriter]:
    """A TCP connection that has sent the handshake and *sent*, and never reads."""
    host, port = heard.server.bound.removeprefix("tcp://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    try:
        for each in (GREETING, READY, *sent):
            writer.write(each)
        yield writer
    finally:
        writer.transport.abort()


async def pour(writer: asyncio.StreamWriter, piece: bytes, times: int) -> int:
    for number in range(times):
        try:
            writer.write(piece)
            await writer.drain()
        except ConnectionError:
            return number
    return times


# ---- who may


@pytest.mark.parametrize("bind", ["tcp://*:5557", "tcp://0.0.0.0:5557", "tcp://10.0.0.9:5557"])
def test_a_start_that_opens_the_port_to_other_machines_needs_a_list(bind: str) -> None:
    """The gateway refuses its configuration, and names the setting."""
    settings = {"models": [{"name": "tiny", "workers": [{"url": "http://a:1"}]}], "kv_events": {"bind": bind}}
    with pytest.raises(SettingsError, match=r"kv_events\.allowed_cidrs is required"):
        build(settings, {})


async def test_a_real_publisher_is_heard(context: zmq.asyncio.Context) -> None:
    """libzmq's PUB socket, with its end."""
    async with listening() as heard:
        async with event_publisher(context, dials=heard.server.bound, topic=b"kv@a@tiny") as engine:
            await heard.until(lambda: heard.links)
            await asyncio.sleep(0)
            async with asyncio.timeout(60):
                while not heard.messages:
                    await engine.publish(b"payload" * 1000)
                    heard.read()
                    await asyncio.sleep(0.002)
        await heard.until(lambda: Link.DOWN in heard.links)

    assert [b"kv@a@tiny", b"payload" * 1000] == heard.messages[0][::2]
    assert [Link.UP, Link.DOWN] == heard.links


async def test_a_stranger_is_disconnected_before_it_says_anything(
    context: zmq.asyncio.Context, caplog: pytest.LogCaptureFixture
) -> None:
    """Its address is not in the list; the log names it once, however often it comes."""
    with caplog.at_level(logging.WARNING):
        async with (
            listening(allowed=(ip_network("10.0.0.0/8"),)) as heard,
            event_publisher(context, dials=heard.server.bound, topic=b"kv@a@tiny") as engine,
            asyncio.timeout(60),
        ):
            while heard.server.refused < 3:
                await engine.publish(b"poison")
                heard.read()
                await asyncio.sleep(0.01)

    assert ([], []) == (heard.links, heard.messages)
    assert 1 == caplog.text.count("127.0.0.1")
    assert "not in kv_events.allowed_cidrs" in caplog.text


async def test_the_number_of_connections_is_limited() -> None:
    """The third of two is ended; one that goes makes room."""
    async with listening() as heard, peer(heard) as first, peer(heard), peer(heard):
        await heard.until(lambda: heard.server.refused == 1 and len(heard.links) == 2)
        first.transport.abort()
        await heard.until(lambda: Link.DOWN in heard.links)
        async with peer(heard):
            await heard.until(lambda: len(heard.links) == 4)

    assert [Link.UP, Link.UP, Link.DOWN, Link.UP] == heard.links[:4]


# ---- how much


@pytest.mark.parametrize(
    ("piece", "reason", "most"),
    [
        (LONG_PART_THAT_GOES_ON, "more than 1048576 bytes", 20),
        (EMPTY_PART_THAT_GOES_ON * 250_000, "more than 8 parts", 20),
        (b"\x02" + struct.pack(">Q", 2**40) + bytes(MIB), "more than 1048576 bytes", 20),
    ],
    ids=["long parts", "empty parts", "one part of a tebibyte"],
)
async def test_a_message_that_never_ends_ends_its_connection(
    piece: bytes, reason: str, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    """After at most a mebibyte; the reason is in the log, and nothing of the message is kept."""
    with caplog.at_level(logging.WARNING):
        async with listening() as heard, asyncio.TaskGroup() as tasks, peer(heard) as writer:
            reading = tasks.create_task(heard.run())
            poured = await asyncio.wait_for(pour(writer, piece, 1600), 60)
            reading.cancel()

    assert poured < most
    assert 1 == heard.server.refused
    assert [] == heard.messages
    assert 0 == heard.server.held_bytes
    assert reason in caplog.text


async def test_who_is_not_read_stays_with_its_messages() -> None:
    """A flood of whole messages waits at its sender while the gateway is busy: little of it is received."""
    message = b"\x02" + struct.pack(">Q", MIB // 4) + bytes(MIB // 4)
    async with listening() as heard, asyncio.TaskGroup() as tasks, peer(heard) as writer:
        pouring = tasks.create_task(pour(writer, message, 1600))
        async with asyncio.timeout(60):
            while heard.server.held_bytes < MIB // 4:
                await asyncio.sleep(0.002)
        for _ in range(1000):
            await asyncio.sleep(0)
        held_bytes = heard.server.held_bytes
        await heard.until(lambda: len(heard.messages) >= 20)
        pouring.cancel()

    assert held_bytes < 2 * MIB
    assert 0 == heard.server.refused


async def test_all_connections_together_hold_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    """Each of them within its own; the one that passes the common limit is ended."""
    limits = ServerLimits(max_connections=8, max_message_bytes=MIB, max_held_bytes=3 * MIB)
    unfinished = b"\x02" + struct.pack(">Q", MIB) + bytes(MIB - 1)
    with caplog.at_level(logging.WARNING):
        async with listening(limits) as heard, AsyncExitStack() as peers:
            for _ in range(4):
                await peers.enter_async_context(peer(heard, unfinished))
            await heard.until(lambda: heard.server.refused)

    assert heard.server.held_bytes <= 3 * MIB
    assert "the buffer for unread messages is full" in caplog.text


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n".ljust(64), "the peer does not speak ZMTP 3"),
        (GREETING.replace(b"NULL", b"CURV"), "a security mechanism other"),
        (GREETING + READY.replace(b"PUB", b"REQ"), "is not a PUB socket"),
        (GREETING + b"\x04\x06\x05READY", "is not a PUB socket"),
        (GREETING + b"\x04\x0b\x05READY\x01a\xff\xff\xff", "is not a PUB socket"),
        (GREETING + b"\x04\x07\x05ERROR\x00", "the peer refused the handshake"),
        (GREETING + b"\x00\x01x", "a message before the handshake"),
        (GREETING + b"\x06" + struct.pack(">Q", 5000), "a command of more than 4096 bytes"),
        (GREETING + READY + b"\x80\x00", "unknown flags"),
    ],
)
async def test_who_does_not_speak_the_protocol_is_disconnected(
    sent: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with listening() as heard:
            host, port = heard.server.bound.removeprefix("tcp://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            await heard.until(lambda: heard.server.refused)
            writer.transport.abort()
            del reader

    assert reason in caplog.text


async def test_who_sends_heartbeats_and_reads_no_answer_is_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    """Answers to it would be kept for ever."""
    ping = b"\x06" + struct.pack(">Q", 4007) + b"\x04PING\x00\x64" + bytes(4000)
    with caplog.at_level(logging.WARNING):
        async with listening() as heard, asyncio.TaskGroup() as tasks, peer(heard) as writer:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a transport that reads, which it is
            reading = tasks.create_task(heard.run())
            await asyncio.wait_for(pour(writer, ping, 50_000), 60)
            await heard.until(lambda: heard.server.refused)
            reading.cancel()

    assert "does not read the answers" in caplog.text


# ---- who waits


class Slow:
    """A listener whose work takes a millisecond for each message."""

    def __init__(self) -> None:
        self.to_do = 0
        self.heard = 0

    def published(self, frames: list[bytes]) -> None:
        self.to_do += 1
        self.heard += 1

    def linked(self, link: Link) -> None: ...

    def work(self) -> bool:
        if self.to_do:
            time.sleep(0.001)  # work, as far as the loop can see
            self.to_do -= 1
        return bool(self.to_do)


@pytest.fixture
def flood() -> bytes:
    return (b"\x01\x01t" + b"\x01\x08" + bytes(8) + b"\x00\x40" + bytes(64)) * 1000


async def test_a_flood_leaves_the_loop_to_requests(flood: bytes) -> None:
    """The loop goes on to turn between two slices of work, and what is flooded waits at its sender."""
    dial_in, slow = DialIn("tcp://127.0.0.1:0", pace=LoopShare(time.monotonic)), Slow()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(dial_in.run())
        with dial_in.hear(slow, topic="t", replays=False):
            while dial_in.bound is None:
                await asyncio.sleep(0.002)
            port = int(dial_in.bound.rpartition(":")[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GREETING + READY)
            pouring = tasks.create_task(pour(writer, flood, 1000))
            while slow.heard < 20:
                await asyncio.sleep(0)
            before, turns = slow.heard, 0
            while slow.heard < before + 100:
                await asyncio.sleep(0)
                turns += 1
            pouring.cancel()
            writer.transport.abort()
        running.cancel()

    assert 50 <= turns


async def test_a_topic_without_bound_is_not_remembered() -> None:
    """Topics of messages are kept by who published them: a long one is counted and forgotten."""
    dial_in = DialIn("tcp://127.0.0.1:0", pace=LoopShare(time.monotonic))
    long = b"\x03" + struct.pack(">Q", MIB) + b"t" * MIB + b"\x01\x08" + bytes(8) + b"\x00\x01x"
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(dial_in.run())
        while dial_in.bound is None:
            await asyncio.sleep(0.002)
        port = int(dial_in.bound.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GREETING + READY + long * 3)
        async with asyncio.timeout(60):
            while dial_in.strangers.total() < 3:
                await asyncio.sleep(0.002)
        writer.transport.abort()
        running.cancel()

    assert [1024] == [len(topic) for topic in dial_in.strangers]


# ---- engines that the gateway dials


@asynccontextmanager
async def lying_engine(kind: bytes, piece: bytes, times: int) -> AsyncIterator[tuple[str, list[int]]]:
    """An engine that sends *piece* again and again behind the handshake: its address, and what each connection got."""
    sent: list[int] = []
    ready = READY.replace(b"\x19", bytes([22 + len(kind)])).replace(b"\x03PUB", bytes([len(kind)]) + kind)

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING + ready)
        sent.append(await pour(writer, piece, times))
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", sent


@pytest.mark.parametrize("kind", [b"PUB", b"ROUTER"])
@pytest.mark.parametrize(
    ("piece", "reason"),
    [
        (EMPTY_PART_THAT_GOES_ON * 100_000, "sent a message of more than 8 parts"),
        (b"\x01\x08" + b"tiny" * 2 + EMPTY_PART_THAT_GOES_ON * 100_000, "sent a message of more than 8 parts"),
        (LONG_PART_THAT_GOES_ON, "sent a message of more than 8"),
        (b"\x02" + struct.pack(">Q", 2**40) + bytes(MIB), "sent a message of more than 8388608 bytes"),
    ],
    ids=["empty parts", "small parts", "long parts", "one part of a tebibyte"],
)
async def test_an_engine_cannot_fill_the_memory_with_one_message(
    kind: bytes, piece: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it publishes or answers: its connection ends, the log says why, and it is dialed again later."""
    with caplog.at_level(logging.WARNING):
        async with lying_engine(kind, piece, 1600) as (endpoint, sent):
            dialing = subscription(endpoint) if kind == b"PUB" else replay(endpoint, [b"", bytes(8)])
            async with asyncio.timeout(60), dialing as opened:
                while not sent:
                    await opened.ready()
                    while (found := opened.read()) is not ReadProgress.IDLE:
                        assert not isinstance(found, list)
                    assert opened.held_bytes <= 9 * MIB
                    await asyncio.sleep(0.001)
            assert sent[0] < 100

    assert reason in caplog.text
    assert 0 == opened.held_bytes


@pytest.mark.parametrize(("kind", "most"), [(b"PUB", 2 * MIB), (b"ROUTER", 34 * MIB)])
async def test_messages_that_are_not_read_stay_with_the_engine(kind: bytes, most: int) -> None:
    message = b"\x02" + struct.pack(">Q", MIB // 4) + bytes(MIB // 4)
    async with lying_engine(kind, message, 1600) as (endpoint, _):
        dialing = subscription(endpoint) if kind == b"PUB" else replay(endpoint, [b"", bytes(8)])
        async with asyncio.timeout(60), dialing as opened:
            while opened.read() is not Link.UP:
                await asyncio.sleep(0.001)
            held = -1
            while held != opened.held_bytes:
                held = opened.held_bytes
                for _turn in range(200):
                    await asyncio.sleep(0.001)

    assert 0 < held <= most
