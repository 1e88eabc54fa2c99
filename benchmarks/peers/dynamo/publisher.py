"""Engines that publish KV events with ZeroMQ, each on a separate port, after a subscriber has connected."""

import struct
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import zmq

SUBSCRIBED = b"\x01"


class NobodyListensError(Exception):
    """Error for engines without a subscriber in time."""


class Publisher:
    """PUB socket for each of *engines* engines. Messages wait in the socket until they are read."""

    def __init__(self, engines: int) -> None:
        self._context = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []
        for _ in range(engines):
            socket = self._context.socket(zmq.XPUB)  # XPUB reports subscribers: what is sent before one is lost
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.SNDHWM, 0)
            self._sockets.append(socket)
        self.ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in self._sockets]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.destroy()

    def publish(self, batches: Mapping[int, Sequence[bytes]], *, timeout_s: float) -> None:
        """Send each engine's batches when its subscriber has connected. Does not wait until the batches are read.

        Raises:
            NobodyListensError: if no further engine got a subscriber within *timeout_s*, and some have none.
        """
        poller = zmq.Poller()
        engine_of = {socket: engine for engine, socket in enumerate(self._sockets)}
        for socket in self._sockets:
            poller.register(socket, zmq.POLLIN)
        waiting = set(self._sockets)
        while waiting:
            ready = dict(poller.poll(round(timeout_s * 1000)))
            if not ready:
                raise NobodyListensError(f"{len(waiting)} engines without a subscriber after {timeout_s:g} s")
            for socket in ready:
                if socket.recv().startswith(SUBSCRIBED) and socket in waiting:
                    waiting.discard(socket)
                    for number, batch in enumerate(batches.get(engine_of[socket], ())):
                        # Frames: topic, sequence (64 bits, big-endian), batch.
                        socket.send_multipart([b"", struct.pack(">Q", number), batch])
