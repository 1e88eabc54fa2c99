"""Our ends of the engines' sockets, with the limits that they have here."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import zmq
import zmq.asyncio

MAX_MESSAGE_BYTES = 8 * 2**20
"""A step of an engine that tells of a million tokens takes 5 MB. Who sends more than this is cut off."""
PUBLISHED_HWM = 1_000
"""Messages that wait at our end of one connection; then the engine's end keeps them: vLLM up to 100,000."""
REPLAYED_HWM = 20_002
"""Twice what vLLM keeps for replays, and twice the end. vLLM up to 0.32 drops what exceeds 1,000 at its end, so ours
has to take a replay as fast as the network brings it."""
RECONNECT_MS = 100
RECONNECT_MAX_MS = 5_000
"""Between two attempts; doubled up to this."""
KEEPALIVE_IDLE_S = 5
KEEPALIVE_S = 5
KEEPALIVE_PROBES = 2
"""A host that vanished says no goodbye; an idle engine says nothing either, but its host answers. By TCP and not by
ZMQ's heartbeats: one of those that runs out while a full `PUBLISHED_HWM` keeps us from reading aborts the whole process
(`_input_stopped`, zeromq/libzmq issue 3937).
"""

_MONITORED = zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.DISCONNECTED
_EVENT = struct.Struct("=HI")


class Link(Enum):
    """What became of a connection."""

    UP = "up"
    DOWN = "down"


class Subscription:
    """A SUB socket, and what is known of its connections."""

    def __init__(self, context: zmq.asyncio.Context, *, topic: str) -> None:
        self._socket = context.socket(zmq.SUB)
        _limit(self._socket, receive_hwm=PUBLISHED_HWM)
        self._socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        self._socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S)
        self._socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_S)
        self._socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_PROBES)
        self._socket.setsockopt(zmq.SUBSCRIBE, topic.encode())
        self._monitor = self._socket.get_monitor_socket(_MONITORED)
        self._poller = zmq.asyncio.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)

    def connect(self, endpoint: str) -> None:
        """Raises zmq.ZMQError if that is no address."""
        self._socket.connect(endpoint)

    async def ready(self) -> None:
        """Wait until there is something to read, of either kind."""
        await self._poller.poll()

    def read_link(self) -> Link | None:
        """What became of the next connection; None if nothing is known yet."""
        frames = _read(self._monitor)
        if frames is None:
            return None
        event, _ = _EVENT.unpack(frames[0])
        return Link.UP if event == zmq.Event.HANDSHAKE_SUCCEEDED else Link.DOWN

    def read(self) -> list[bytes] | None:
        """The frames of the next message; None if there is none yet."""
        return _read(self._socket)

    def close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=0)


class Replay:
    """A DEALER socket for one question. A fresh one each time: what an engine answered before goes nowhere."""

    def __init__(self, context: zmq.asyncio.Context) -> None:
        self._socket = context.socket(zmq.DEALER)
        _limit(self._socket, receive_hwm=REPLAYED_HWM)

    async def ask(self, endpoint: str, request: list[bytes]) -> None:
        """Raises zmq.ZMQError if *endpoint* is no address."""
        self._socket.connect(endpoint)
        await self._socket.send_multipart(request)

    async def ready(self) -> None:
        """Wait until there is something to read."""
        await self._socket.poll()

    def read(self) -> list[bytes] | None:
        """The frames of the next answer; None if there is none yet."""
        return _read(self._socket)

    def close(self) -> None:
        self._socket.close(linger=0)


@contextmanager
def subscription(context: zmq.asyncio.Context, *, topic: str = "") -> Iterator[Subscription]:
    """A socket that hears what is published under topics that begin with *topic*."""
    opened = Subscription(context, topic=topic)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def replay(context: zmq.asyncio.Context) -> Iterator[Replay]:
    """A socket for one question to an engine's ROUTER."""
    opened = Replay(context)
    try:
        yield opened
    finally:
        opened.close()


def _limit(socket: zmq.asyncio.Socket, *, receive_hwm: int) -> None:
    socket.setsockopt(zmq.RCVHWM, receive_hwm)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    socket.setsockopt(zmq.IPV6, 1)
    socket.setsockopt(zmq.LINGER, 0)


def _read(socket: zmq.asyncio.Socket) -> list[bytes] | None:
    answer = socket.recv_multipart(flags=zmq.DONTWAIT)
    # Without waiting, the future is done at once.
    try:
        frames: list[bytes] = answer.result()  # type: ignore[attr-defined]  # declared as an awaitable only
    except zmq.Again:
        return None
    return frames
