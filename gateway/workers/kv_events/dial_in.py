"""Listening address for engines that connect to the gateway to publish KV events. The message topic identifies each."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from gateway.protocol.errors import DECODE_ERRORS
from gateway.workers.kv_events.connection import Link, Network
from gateway.workers.kv_events.frames import MAX_TOPIC_BYTES
from gateway.workers.kv_events.loop_share import LoopShare
from gateway.workers.kv_events.publisher_server import LOOPBACK, PublisherServer, publisher_server
from gateway.workers.kv_events.wire import UNSORTED
from gateway.workers.kv_events.zmtp import ReadProgress

_log = logging.getLogger(__name__)

AFTER_FAULT_S = 1.0
TOPICS_KEPT = 1024
"""Maximum number of topics whose listeners are cached, and of unknown topics that are counted."""


class Listener(Protocol):
    """Reader for one rank of an engine. Its methods must not raise, because an exception would stop the reading for all
    engines.
    """

    def published(self, frames: list[bytes]) -> None:
        """Process the frames *frames* of a message that the engine published."""
        ...

    def linked(self, link: Link) -> None:
        """Process a change of the connection state. The same state is sometimes reported twice."""
        ...

    def work(self) -> bool:
        """Process one slice of pending work. Return whether there was any work."""
        ...


@dataclass(slots=True, eq=False)
class _Seat:
    listener: Listener
    topic: str
    names: frozenset[str]
    rank: int
    replays: bool
    is_linked: bool = False


class DialIn:
    """Server that accepts connections of engines at *endpoint* if their addresses are in *allowed*. With port 0, the
    system chooses the port; see `bound`.

    One connection may carry several engines, and an engine may reconnect on another one. When a connection ends, all
    listeners that can request a replay are notified that messages may be missing. When the last one ends, all listeners
    are notified.
    """

    def __init__(self, endpoint: str, *, pace: LoopShare, allowed: Sequence[Network] = LOOPBACK) -> None:
        self._endpoint = endpoint
        self._allowed = allowed
        self._pace = pace
        self._seats: list[_Seat] = []
        self._by_topic: dict[bytes, list[_Seat]] = {}
        self._working: list[_Seat] = []
        self._connections = 0
        self.bound: str | None = None
        """Address to which engines can connect, or None while the gateway does not listen."""
        self.strangers: Counter[str] = Counter()
        """Number of messages without a listener, by topic. Usually, the cause is a misspelled worker name."""

    @contextmanager
    def hear(
        self, listener: Listener, *, topic: str = "", names: frozenset[str] = frozenset(), rank: int = 0, replays: bool
    ) -> Iterator[None]:
        """Deliver the messages of one engine to *listener* while the context is active.

        Messages are selected by *topic*, or, if it is empty, by topics ``kv@<name>@...`` with a name in *names*. The
        name may be the worker id, the host, or host and port, as the operator configured it. If ranks share a topic,
        only messages of *rank* are delivered. *replays* says whether the listener can request missed messages.
        """
        seat = _Seat(listener, topic, names, rank, replays)
        self._seats.append(seat)
        self._by_topic.clear()
        if replays and self._connections:
            self._link(seat)
        try:
            yield
        finally:
            self._seats.remove(seat)
            self._by_topic.clear()
            if seat in self._working:
                self._working.remove(seat)

    async def run(self) -> None:
        """Accept connections until canceled. After an error, listen again."""
        while True:
            try:
                await self._listen()
            except OSError:
                _log.exception("cannot listen for KV events at %s", self._endpoint)
            await asyncio.sleep(AFTER_FAULT_S)

    async def _listen(self) -> None:
        async with publisher_server(self._endpoint, allowed=self._allowed) as opened:
            self.bound = opened.bound
            try:
                while True:
                    await opened.ready()
                    await self._pace.drain(lambda: self._work() or self._read(opened))
            finally:
                self.bound = None
                self._connections = 0
                self._unlink(self._seats)

    def _work(self) -> bool:
        """Process one slice of work for a listener that has messages."""
        while self._working:
            if self._working[0].listener.work():
                return True
            self._working.pop(0)
        return False

    # ---- connections

    def _read(self, opened: PublisherServer) -> bool:
        """Process one read of a connection. Return whether there was anything to read."""
        found = opened.read()
        if found is Link.UP:
            self._connected()
        elif found is Link.DOWN:
            self._disconnected()
        elif isinstance(found, list):
            self._hand_on(found)
        return found is not ReadProgress.IDLE

    def _connected(self) -> None:
        self._connections += 1
        for seat in self._seats:
            if seat.replays and not seat.is_linked:
                self._link(seat)

    def _disconnected(self) -> None:
        self._connections = max(0, self._connections - 1)
        if self._connections:
            for seat in self._seats:
                if seat.replays and seat.is_linked:
                    self._unlink([seat])
                    self._link(seat)
        else:
            self._unlink(self._seats)

    def _link(self, seat: _Seat) -> None:
        seat.is_linked = True
        seat.listener.linked(Link.UP)

    def _unlink(self, seats: list[_Seat]) -> None:
        for seat in seats:
            if seat.is_linked:
                seat.is_linked = False
                seat.listener.linked(Link.DOWN)

    # ---- messages

    def _hand_on(self, frames: list[bytes]) -> None:
        seats = self._seats_of(frames[0])
        if not seats:
            self._count_stranger(frames[0])
        elif len(seats) > 1:
            rank = _rank_of(frames[-1])
            seats = [seat for seat in seats if seat.rank == rank]
        for seat in seats:
            if not seat.is_linked:
                self._link(seat)
            seat.listener.published(frames)
            if seat not in self._working:
                self._working.append(seat)

    def _seats_of(self, topic: bytes) -> list[_Seat]:
        if len(topic) > MAX_TOPIC_BYTES:
            return []
        seats = self._by_topic.get(topic)
        if seats is None:
            seats = [seat for seat in self._seats if _is_for(topic.decode(errors="replace"), seat)]
            if len(self._by_topic) < TOPICS_KEPT:
                self._by_topic[topic] = seats
        return seats

    def _count_stranger(self, topic: bytes) -> None:
        name = topic[:MAX_TOPIC_BYTES].decode(errors="replace")
        if name in self.strangers or len(self.strangers) < TOPICS_KEPT:
            self.strangers[name] += 1


def name_in(topic: str) -> str | None:
    """Return the publisher name in a topic in llm-d's form ``kv@<pod>@<model>``, or None for other topics."""
    match topic.split("@", 2):
        case ["kv", name, _]:
            return name
        case _:
            return None


def _is_for(topic: str, seat: _Seat) -> bool:
    return topic == seat.topic if seat.topic else name_in(topic) in seat.names


def _rank_of(payload: bytes) -> object:
    """Return the data-parallel rank in a batch. This takes as long as skipping over the payload."""
    try:
        return UNSORTED.decode(payload).rank
    except DECODE_ERRORS:
        return None
