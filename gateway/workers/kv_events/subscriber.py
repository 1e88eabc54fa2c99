"""Subscription to one data-parallel rank of a worker. While it runs, it applies the rank's events to a feed."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from gateway.workers.kv_events.connection import Link
from gateway.workers.kv_events.counters import StreamCounters
from gateway.workers.kv_events.dial_in import DialIn
from gateway.workers.kv_events.feed import Feed, Trust
from gateway.workers.kv_events.frames import replay_request
from gateway.workers.kv_events.loop_share import LoopShare
from gateway.workers.kv_events.replay_schedule import ReplayRequest, ReplayTimeouts
from gateway.workers.kv_events.sockets import Dialed, replay, subscription
from gateway.workers.kv_events.sources import EventSource
from gateway.workers.kv_events.stream import RankStream
from gateway.workers.kv_events.zmtp import ReadProgress

T = TypeVar("T")

_log = logging.getLogger(__name__)

TICK_S = 0.25
AFTER_FAULT_S = 1.0


class Subscriber:
    """Subscriber that reads events from *source* and applies them to *feed*. *clock* is monotonic, and *wall_clock*
    counts from 1970, both in seconds.

    Engines that connect to the gateway are received through *dial_in*, which must already be running. All subscribers
    share *pace*.
    """

    def __init__(
        self,
        source: EventSource,
        feed: Feed,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        pace: LoopShare,
        dial_in: DialIn | None = None,
        names: frozenset[str] = frozenset(),
        timeouts: ReplayTimeouts | None = None,
    ) -> None:
        """Create the subscriber. A connecting engine can use the names *names* in its topic; see `DialIn.hear`.

        Raises:
            ValueError: if the engine connects to the gateway, but *dial_in* is None.
        """
        if source.endpoint is None and dial_in is None:
            raise ValueError("the engine connects to the gateway, but kv_events.bind is not set")
        self._source = source
        self._clock = clock
        self._pace = pace
        self._dial_in = dial_in
        self._names = names
        self._stream = RankStream(
            feed,
            replays=source.replay_endpoint is not None,
            wall_clock=wall_clock,
            topic=source.topic.encode() if source.topic else None,
            timeouts=timeouts,
        )
        self._asked = asyncio.Event()
        self._answering: ReplayRequest | None = None

    @property
    def trust(self) -> Trust:
        return self._stream.trust

    @property
    def counters(self) -> StreamCounters:
        return self._stream.counters

    def doubt(self) -> None:
        self._stream.doubt(self._clock())
        self._look_at_ask()

    def vouch(self) -> None:
        self._stream.vouch(self._clock())

    async def run(self) -> None:
        """Receive events until canceled. After an error, restart the subscription."""
        has_failed = False
        while True:
            try:
                if has_failed:
                    self._stream.disconnected(self._clock())
                    self._stream.doubt(self._clock())
                await self._follow()
            except Exception:  # noqa: BLE001  # what one engine brings about must not end the others' streams
                _log.exception(
                    "the subscription to the KV events of %s failed; restarting",
                    self._source.endpoint or self._source.topic,
                )
                has_failed = True
            await asyncio.sleep(AFTER_FAULT_S)

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tick())
            if self._source.replay_endpoint is not None:
                tasks.create_task(self._replay(self._source.replay_endpoint))
            if self._source.endpoint is not None:
                tasks.create_task(self._listen(self._source.endpoint))
            else:
                assert self._dial_in is not None
                tasks.create_task(self._be_dialled(self._dial_in))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._stream.tick(self._clock())
            self._look_at_ask()
            await self._pace.drain(self._work)

    # ---- what is published

    async def _listen(self, endpoint: str) -> None:
        async with subscription(endpoint, topic=self._source.topic) as opened:
            try:
                while True:
                    await opened.ready()
                    await self._pace.drain(lambda: self._work() or self._read(opened))
            finally:
                self._stream.disconnected(self._clock())

    async def _be_dialled(self, dial_in: DialIn) -> None:
        source = self._source
        line = _Line(self._stream, self._clock, self._look_at_ask)
        replays = source.replay_endpoint is not None
        with dial_in.hear(line, topic=source.topic, names=self._names, rank=source.rank, replays=replays):
            try:
                await line.fault
            finally:
                self._stream.disconnected(self._clock())

    def _read(self, opened: Dialed) -> bool:
        """Process one read of the connection. Return whether there was anything to read."""
        found = opened.read()
        if isinstance(found, ReadProgress):
            return found is not ReadProgress.IDLE
        match found:
            case Link.UP:
                self._stream.connected(self._clock())
            case Link.DOWN:
                self._stream.disconnected(self._clock())
            case frames:
                self._stream.published(frames, self._clock())
        self._look_at_ask()
        return True

    # ---- replays

    async def _replay(self, endpoint: str) -> None:
        while True:
            self._asked.clear()
            self._answering = self._stream.replay_request
            async with asyncio.TaskGroup() as tasks:
                answering = None
                if self._answering is not None:
                    answering = tasks.create_task(self._receive(endpoint, self._answering))
                await self._asked.wait()
                if answering is not None:
                    answering.cancel()

    async def _receive(self, endpoint: str, request: ReplayRequest) -> None:
        async with replay(endpoint, replay_request(request.start)) as opened:
            while True:
                await opened.ready()
                await self._pace.drain(lambda: self._work() or self._read_answer(opened, request))

    def _read_answer(self, opened: Dialed, request: ReplayRequest) -> bool:
        found = opened.read()
        if isinstance(found, list):
            self._stream.answered(request.number, found, self._clock())
            self._look_at_ask()
        return found is not ReadProgress.IDLE

    def _look_at_ask(self) -> None:
        """Check for a new replay request. Call this after every change that could cause a request."""
        if self._stream.replay_request != self._answering:
            self._asked.set()

    def _work(self) -> bool:
        return self._stream.work(self._clock())


class _Line:
    """Listener for one engine that connects through `DialIn`. An error ends only this listener.

    The future `fault` completes with the error. Its owner must await it.
    """

    def __init__(self, stream: RankStream, clock: Callable[[], float], look_at_ask: Callable[[], None]) -> None:
        self._stream = stream
        self._clock = clock
        self._look_at_ask = look_at_ask
        self.fault: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def published(self, frames: list[bytes]) -> None:
        self._try(lambda: self._stream.published(frames, self._clock()))

    def linked(self, link: Link) -> None:
        tell = self._stream.connected if link is Link.UP else self._stream.disconnected
        self._try(lambda: tell(self._clock()))

    def work(self) -> bool:
        return self._try(lambda: self._stream.work(self._clock())) or False

    def _try(self, deed: Callable[[], T]) -> T | None:
        if self.fault.done():
            return None
        try:
            done = deed()
            self._look_at_ask()
        except Exception as fault:  # noqa: BLE001  # it is raised where `fault` is awaited
            self.fault.set_exception(fault)
            return None
        return done
