"""Streams of KV events without engines or sockets: a test says what they find, and the outcome of them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gateway.workers.kv_events.counters import StreamCounters
from gateway.workers.kv_events.feed import Feed
from gateway.workers.kv_events.sources import EventSource, EventSources


def some_counters(**known: Any) -> StreamCounters:
    nothing: dict[str, Any] = dict.fromkeys(StreamCounters.__dataclass_fields__, 0)
    plain = {"trust": "live", "doubt": None, "knowledge": "complete", "last_seq": None, "lag_s": None}
    counts = {"events": {}, "blocks": {"stored": 0, "removed": 0}, "ignored": {}, "refused": {}}
    return StreamCounters(**nothing | plain | counts | known)


class FakeSubscription:
    """Reports *feed* nothing by itself."""

    def __init__(self, source: EventSource, feed: Feed, worker: str, url: str) -> None:
        self.source = source
        self.feed = feed
        self.worker = worker
        self.url = url
        self.counters = some_counters()
        self.is_running = False
        self.done: list[str] = []
        """Tasks that it was given."""

    async def run(self) -> None:
        self.is_running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_running = False

    def doubt(self) -> None:
        self.done.append("doubt")

    def vouch(self) -> None:
        self.done.append("vouch")


class FakeIntake:
    """Finds what *found* has for a URL; engines at other URLs do not say where they reports their caches."""

    def __init__(self, found: Mapping[str, EventSources | None]) -> None:
        self.found = dict(found)
        self.asked: list[tuple[str, dict[str, str]]] = []
        """URL and headers of every question."""
        self.subscriptions: list[FakeSubscription] = []
        """All that there ever were."""
        self.is_open = False

    @property
    def running(self) -> list[FakeSubscription]:
        return [subscription for subscription in self.subscriptions if subscription.is_running]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False

    async def find(self, url: str, headers: Mapping[str, str]) -> EventSources | None:
        self.asked.append((url, dict(headers)))
        await asyncio.sleep(0)
        return self.found.get(url)

    def subscribe(self, source: EventSource, feed: Feed, *, worker: str, url: str) -> FakeSubscription:
        assert self.is_open
        if source.endpoint is None:
            raise ValueError("the engine connects to the gateway, but kv_events.bind is not set")
        subscription = FakeSubscription(source, feed, worker, url)
        self.subscriptions.append(subscription)
        return subscription
