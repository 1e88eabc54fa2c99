"""ZMQ sockets of a vLLM event publisher (vllm/distributed/kv_events.py): PUB for events, ROUTER for replays.

    event    [topic, sequence, payload], where the sequence number has 8 bytes, big-endian
    request  [client, empty, first sequence]
    replay   [client, empty, topic, sequence, payload] for each batch, then [client, empty, empty, -1, empty];
             with three frames, the topic and the empty frame in its place are missing

The sockets use no task and no thread. The event loop reports incoming requests, and replays are queued at once.
"""

import asyncio
from collections.abc import Callable, Iterable

import zmq

from simulator.event_log import Batch
from simulator.event_options import EventOptions

PUB_HWM = 100_000
"""Maximum number of queued messages per subscriber, as by default in vLLM."""

_SEQUENCE_BYTES = 8
_END = b"\xff" * _SEQUENCE_BYTES


class EventSockets:
    """Sockets for KV events, closed at first. *replay* returns the batches from a given sequence number on.

    If the host stands for all interfaces, its reported address is ``*`` as in vLLM.
    """

    def __init__(self, options: EventOptions, *, host: str, replay: Callable[[int], Iterable[Batch]]) -> None:
        self._options = options
        self._host = host
        self._replay = replay
        self._topic = options.topic.encode()
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._publisher: zmq.Socket[bytes] | None = None
        self._router: zmq.Socket[bytes] | None = None
        self.port = options.port
        """Port of the PUB socket. It is 0 until the port is known."""
        self.replay_port = options.replay_port

    @property
    def endpoint(self) -> str:
        """Address for subscribers of KV events, or the subscriber's address if the worker connects to a subscriber."""
        return self._options.dial or self._reported(self.port)

    @property
    def replay_endpoint(self) -> str | None:
        return None if self.replay_port is None else self._reported(self.replay_port)

    def open(self) -> None:
        """Bind the event sockets. Reopened sockets use the same ports as before.

        Raises:
            OSError: if an address cannot be used. `filename` is the address.
        """
        self._context = zmq.Context()
        try:
            self._open_publisher(self._context)
            if self.replay_port is not None:
                self._open_router(self._context, self.replay_port)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections of the event sockets. Messages that have not been sent yet are lost."""
        if self._router is not None:
            asyncio.get_running_loop().remove_reader(self._router.fileno())
        for opened in (self._router, self._publisher):
            if opened is not None:
                opened.close(linger=0)
        self._router = self._publisher = None
        if self._context is not None:
            self._context.term()
            self._context = None

    def send(self, batch: Batch) -> None:
        """Send *batch* to all subscribers without waiting. The method does nothing while the sockets are closed."""
        if self._publisher is not None:
            self._publisher.send_multipart((self._topic, _sequence_bytes(batch.sequence), batch.payload))

    def _open_publisher(self, context: "zmq.Context[zmq.Socket[bytes]]") -> None:
        self._publisher = context.socket(zmq.PUB)
        self._publisher.set_hwm(PUB_HWM)
        if self._options.dial is not None:
            _attach(self._publisher.connect, self._options.dial)
        else:
            self.port = self._bind(self._publisher, self.port)

    def _open_router(self, context: "zmq.Context[zmq.Socket[bytes]]", port: int) -> None:
        self._router = context.socket(zmq.ROUTER)
        if self._options.replay_frames == 4:
            self._router.setsockopt(zmq.SNDHWM, 2 * (self._options.buffer_steps + 1))  # since vLLM 0.33
        self.replay_port = self._bind(self._router, port)
        asyncio.get_running_loop().add_reader(self._router.fileno(), self._answer, self._router)

    def _bind(self, bound: "zmq.Socket[bytes]", port: int) -> int:
        bound.setsockopt(zmq.IPV6, int(":" in self._host))
        _attach(bound.bind, self._address(self._host, port))
        last = bound.getsockopt_string(zmq.LAST_ENDPOINT)
        return int(last.rpartition(":")[2])

    @property
    def reported_host(self) -> str:
        return "*" if self._host in ("0.0.0.0", "::") else self._host  # noqa: S104 - compared only

    def _reported(self, port: int) -> str:
        return self._address(self.reported_host, port)

    def _address(self, host: str, port: int) -> str:
        return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"

    def _answer(self, router: "zmq.Socket[bytes]") -> None:
        # The descriptor signals changes only: its reader has to read until nothing is left.
        while True:
            try:
                asked = router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(asked) == 3 and len(asked[2]) == _SEQUENCE_BYTES:
                self._serve(router, asked[0], int.from_bytes(asked[2], "big"))

    def _serve(self, router: "zmq.Socket[bytes]", who: bytes, first: int) -> None:
        has_topic = self._options.replay_frames == 4
        head = (who, b"", self._topic) if has_topic else (who, b"")
        for batch in self._replay(first):
            router.send_multipart((*head, _sequence_bytes(batch.sequence), batch.payload), zmq.NOBLOCK)
        router.send_multipart((who, b"", b"", _END, b"") if has_topic else (who, b"", _END, b""), zmq.NOBLOCK)


def _sequence_bytes(sequence: int) -> bytes:
    return sequence.to_bytes(_SEQUENCE_BYTES, "big")


def _attach(how: Callable[[str], object], address: str) -> None:
    try:
        how(address)
    except zmq.ZMQError as error:
        number = error.errno or 0
        raise OSError(number, zmq.strerror(number), address) from None
