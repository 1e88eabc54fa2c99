"""What all subscriptions share: pace, and the address that engines may dial."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from gateway.backends.client import WorkerClient
from gateway.kv_events.connection import Network
from gateway.kv_events.dial_in import DialIn
from gateway.kv_events.feed import Feed
from gateway.kv_events.pace import Pace
from gateway.kv_events.publisher_server import LOOPBACK
from gateway.kv_events.sources import Source, Sources, find_sources, host_of
from gateway.kv_events.subscriber import Subscriber
from gateway.probe import Probe

ASK_TIMEOUT_S = 2.0


class Intake:
    """Finds sources and subscribes to them over ZeroMQ.

    *bind* is the address that engines may dial; None: none. *allowed* holds the addresses of engines: only they may
    dial, and an engine that names another host than its own as its publisher is connected to only if that is in it.
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
        self._pace = Pace(clock)
        self._is_open = False
        self._dial_in: DialIn | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Subscriptions are made and run inside only."""
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
        """For how long a request had to wait for events at most."""
        return self._pace.longest_s

    async def find(self, url: str, headers: Mapping[str, str]) -> Sources | None:
        """Where the engine at *url* tells of its cache, by its own account; None if it does not say."""
        probe = Probe(self._client, url, timeout_s=ASK_TIMEOUT_S, headers=headers)
        port = urlsplit(self._bind).port if self._bind is not None else None
        return await find_sources(probe, host=host_of(url), dial_in_port=port, networks=self._allowed)

    def subscribe(self, source: Source, feed: Feed, *, worker: str, url: str) -> Subscriber:
        """A subscription that runs as long as `Subscriber.run` does. *worker* is its id.

        Raises:
            ValueError: its engine dials, and there is no address for that.
        """
        assert self._is_open, "it is opened"
        return Subscriber(
            source,
            feed,
            clock=self._clock,
            wall_clock=self._wall_clock,
            pace=self._pace,
            dial_in=self._dial_in,
            names=frozenset({worker, host_of(url), urlsplit(url).netloc}),
        )
