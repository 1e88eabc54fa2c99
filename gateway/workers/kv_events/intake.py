"""Resources that all KV event subscriptions share: their part of the event loop's time, and the address for engines to
connect to.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from gateway.backends.client import WorkerClient
from gateway.backends.probe import WorkerProbe
from gateway.workers.kv_events.connection import Network
from gateway.workers.kv_events.dial_in import DialIn
from gateway.workers.kv_events.feed import Feed
from gateway.workers.kv_events.loop_share import LoopShare
from gateway.workers.kv_events.publisher_server import LOOPBACK
from gateway.workers.kv_events.sources import EventSource, EventSources, find_sources, host_of
from gateway.workers.kv_events.subscriber import Subscriber

ASK_TIMEOUT_S = 2.0


class Intake:
    """Service that finds event sources and subscribes to them over ZeroMQ.

    *bind* is the address to which engines may connect, or None. *allowed* contains the networks of engines. Only
    engines in these networks may connect. If an engine names another host as its publisher, the gateway connects only
    if that host is in *allowed*.
    """

    def __init__(
        self,
        *,
        bind: str | None,
        allowed: Sequence[Network] = (),
        client: WorkerClient,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._bind = bind
        self._allowed = allowed
        self._client = client
        self._clock = clock
        self._wall_clock = wall_clock
        self._pace = LoopShare(clock)
        self._is_open = False
        self._dial_in: DialIn | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open the shared resources. Subscriptions can be created and can run only inside this context."""
        self._is_open = True
        try:
            async with asyncio.TaskGroup() as tasks:
                dialled = None
                if self._bind is not None:
                    self._dial_in = DialIn(self._bind, pace=self._pace, allowed=self._allowed or LOOPBACK)
                    dialled = tasks.create_task(self._dial_in.run())
                yield
                if dialled is not None:
                    dialled.cancel()
        finally:
            self._is_open = False
            self._dial_in = None

    @property
    def longest_slice_s(self) -> float:
        """Maximum time in seconds for which the processing of events has delayed requests."""
        return self._pace.longest_s

    async def find(self, url: str, headers: Mapping[str, str]) -> EventSources | None:
        """Query the engine at *url* for the addresses of its events. If it reports none, return None."""
        probe = WorkerProbe(self._client, url, timeout_s=ASK_TIMEOUT_S, headers=headers)
        port = urlsplit(self._bind).port if self._bind is not None else None
        return await find_sources(probe, host=host_of(url), dial_in_port=port, networks=self._allowed)

    def subscribe(self, source: EventSource, feed: Feed, *, worker: str, url: str) -> Subscriber:
        """Return a subscription for *worker*, which is active while `Subscriber.run` is running.

        Raises:
            ValueError: if the engine connects to the gateway, but no bind address is configured.
        """
        assert self._is_open, "the intake is open"
        return Subscriber(
            source,
            feed,
            clock=self._clock,
            wall_clock=self._wall_clock,
            pace=self._pace,
            dial_in=self._dial_in,
            names=frozenset({worker, host_of(url), urlsplit(url).netloc}),
        )
