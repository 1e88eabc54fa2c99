"""Subscriptions to the KV events of every worker's engine.

1. The address of the events comes from the settings or from the engine. An engine that does not report an address is
   queried again until it does.
2. Predicted cache hits are compared with the hits that engines report. An index whose predictions are wrong is rebuilt
   from the blocks that the engine still has. An incomplete index is trusted once its predictions match.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from gateway.workers.kv_events.counters import StreamCounters
from gateway.workers.kv_events.feed import Feed, Trust
from gateway.workers.kv_events.sources import EventSource, EventSources
from gateway.workers.kv_events.worker_feed import WorkerFeed
from routing.fleet import Fleet
from routing.worker import Worker

_log = logging.getLogger(__name__)

ASK_INTERVAL_S = 5.0
"""Seconds between two queries to an engine that has not yet reported the address of its KV events."""
TICK_S = 1.0
SILENT_TICKS = 30
"""Number of ticks without a connection before an engine is queried again for its event address."""


@dataclass(frozen=True, slots=True)
class SubscriptionTarget:
    """Worker to whose KV events the gateway subscribes. A subscription continues while its target stays equal."""

    worker: WorkerId
    url: str
    headers: frozenset[tuple[str, str]] = field(repr=False)
    """HTTP headers for queries to the engine, including its API key."""
    model: str
    """Model that the engine loads, in the form that `scope_of` uses for prompts."""
    sources: EventSources | None
    """Addresses at which the engine publishes KV events, or None if the settings do not list any."""
    uid: str | None = None
    """UID of the worker's pod. If the UID changes, another worker has the same address."""
    rank: int | None = None
    """Data-parallel rank of the worker's stream, or None if the worker does not share its address."""
    name: str | None = None
    """Name that an engine uses for this worker when it connects to the gateway. None stands for the worker id."""

    def source_of(self, sources: EventSources) -> EventSource | None:
        """Return the event source of the worker's rank, or None if it is missing or unknown."""
        if self.rank is None:
            return sources.of_ranks[0] if len(sources.of_ranks) == 1 else None
        return next((source for source in sources.of_ranks if source.rank == self.rank), None)


class Subscription(Protocol):
    """Subscription to one event stream; see `gateway.workers.kv_events.subscriber`."""

    @property
    def counters(self) -> StreamCounters: ...

    async def run(self) -> None: ...

    def doubt(self) -> None: ...

    def vouch(self) -> None: ...


class EventIntake(Protocol):
    """Service that finds event sources and subscribes to them; see `gateway.workers.kv_events.intake`."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Open the resources that subscriptions share. Subscriptions can exist only inside this context."""
        ...

    async def find(self, url: str, headers: Mapping[str, str]) -> EventSources | None:
        """Query the engine at *url* for the addresses of its events. If it reports none, return None."""
        ...

    def subscribe(self, source: EventSource, feed: Feed, *, worker: str, url: str) -> Subscription:
        """Return a subscription to *source*. Raises ValueError if the settings do not allow this source."""
        ...


@dataclass(slots=True, eq=False)
class _Followed:
    subject: SubscriptionTarget
    feed: WorkerFeed
    fleets: tuple[Fleet, ...]
    said: str = ""
    """Message about the engine's event address that was logged last. It prevents repeated log lines."""
    has_replay: bool | None = None
    """Whether missed events can be requested, or None until the event address is known."""
    subscription: Subscription | None = None
    task: "asyncio.Task[None] | None" = None
    silent_ticks: int = 0
    """Number of consecutive ticks without a connection."""


class EventSubscriptions:
    """Subscriptions that keep *confirmed* in sync with the engines' caches, and check its predictions every *tick_s*.

    An engine that does not report an event address is queried again every *ask_interval_s*.
    """

    def __init__(
        self,
        confirmed: Confirmed,
        intake: EventIntake,
        *,
        ask_interval_s: float = ASK_INTERVAL_S,
        tick_s: float = TICK_S,
    ) -> None:
        self._confirmed = confirmed
        self._intake = intake
        self._ask_interval_s = ask_interval_s
        self._tick_s = tick_s
        self._followed: dict[WorkerId, _Followed] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def attend(self, subjects: Mapping[SubscriptionTarget, Iterable[Fleet]]) -> None:
        """Subscribe to exactly the given workers, each for its fleets. Subscriptions to unchanged targets go on."""
        former, self._followed = self._followed, {}
        for subject, fleets in subjects.items():
            followed = former.pop(subject.worker, None)
            if followed is None or followed.subject != subject:
                if followed is not None:
                    self._end(followed)
                followed = self._made(subject)
            followed.fleets = tuple(fleets)
            followed.feed.serve(followed.fleets)
            self._followed[subject.worker] = followed
            self._begin(followed)
        for gone in former.values():
            self._end(gone)

    async def run(self) -> None:
        """Run all subscriptions until canceled."""
        async with self._intake.opened(), asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for followed in self._followed.values():
                    self._begin(followed)
                while True:
                    await asyncio.sleep(self._tick_s)
                    self.compare()
            finally:
                self._tasks = None

    def restart_all(self) -> None:
        """Read the cache contents of every engine again, because the events received so far can no longer be used."""
        for followed in [*self._followed.values()]:
            self._restart(followed)

    def state(self, worker: WorkerId) -> Trust | None:
        """Return how reliable the events of *worker*'s engine are, or None if there is no subscription."""
        followed = self._followed.get(worker)
        return None if followed is None else followed.feed.state

    def subjects(self) -> dict[WorkerId, SubscriptionTarget]:
        """Return all workers with a current or planned subscription, with their subscription targets."""
        return {worker: followed.subject for worker, followed in self._followed.items()}

    def has_replay(self, worker: WorkerId) -> bool | None:
        """Return whether missed events of *worker*'s engine can be requested, or None if this is not known."""
        followed = self._followed.get(worker)
        return None if followed is None else followed.has_replay

    def blocks_heard(self, worker: WorkerId) -> int:
        """Return the number of stored blocks that the engine of *worker* has reported."""
        followed = self._followed.get(worker)
        subscription = None if followed is None else followed.subscription
        return 0 if subscription is None else subscription.counters.blocks["stored"]

    def counters(self) -> dict[WorkerId, StreamCounters]:
        """Return the counters of all streams, by worker. Workers whose event address is still unknown are left out."""
        return {
            worker: followed.subscription.counters
            for worker, followed in self._followed.items()
            if followed.subscription is not None
        }

    def compare(self) -> None:
        """Compare predicted cache hits with reported cache hits, and update the trust in each worker's index."""
        for followed in [*self._followed.values()]:
            subscription = followed.subscription
            if subscription is None:
                continue
            if self._is_silent(followed, subscription.counters):
                self._restart(followed)
            else:
                self._judge(followed, subscription)

    def _is_silent(self, followed: _Followed, counters: StreamCounters) -> bool:
        """Return whether to query the engine again for the address of its events."""
        followed.silent_ticks = followed.silent_ticks + 1 if counters.doubt == "not_connected" else 0
        return followed.silent_ticks >= SILENT_TICKS and followed.subject.sources is None

    def _judge(self, followed: _Followed, subscription: Subscription) -> None:
        """Judge the index of a worker by the requests of all models on it, because these models share one cache."""
        worker, state = followed.subject.worker, followed.feed.state
        accuracies = [state.hit_accuracy.reported for state in _states(followed)]
        is_unreliable = any(accuracy.is_unreliable for accuracy in accuracies)
        if is_unreliable and state == "live":
            _log.warning("worker %s lacks blocks that its engine reported; its index is rebuilt", worker)
            subscription.doubt()
            for accuracy in accuracies:
                accuracy.forget()
        elif not is_unreliable and state == "stale" and any(accuracy.is_proven for accuracy in accuracies):
            _log.info("worker %s has the blocks that its engine reported; its index is trusted again", worker)
            subscription.vouch()

    def _made(self, subject: SubscriptionTarget) -> _Followed:
        return _Followed(subject, WorkerFeed(subject.worker, self._confirmed, model=subject.model), ())

    def _begin(self, followed: _Followed) -> None:
        if followed.task is None and self._tasks is not None:
            followed.task = self._tasks.create_task(self._follow(followed))

    def _restart(self, former: _Followed) -> None:
        """Replace the feed of a worker, so that late events for the former feed are ignored."""
        self._end(former)
        followed = self._made(former.subject)
        followed.said, followed.fleets = former.said, former.fleets
        followed.feed.serve(followed.fleets)
        self._followed[followed.subject.worker] = followed
        self._begin(followed)

    def _end(self, followed: _Followed) -> None:
        if followed.task is not None:
            followed.task.cancel()
        followed.feed.end()

    async def _follow(self, followed: _Followed) -> None:
        subject = followed.subject
        source = await self._source_of(followed)
        followed.has_replay = source.replay_endpoint is not None
        try:
            name = subject.name or subject.worker
            subscription = self._intake.subscribe(source, followed.feed, worker=name, url=subject.url)
        except ValueError as fault:
            _log.error("cannot subscribe to the KV events of worker %s: %s", subject.worker, fault)
            return
        followed.subscription = subscription
        await subscription.run()

    async def _source_of(self, followed: _Followed) -> EventSource:
        """Wait until the event source of a worker is known, and return the source."""
        subject = followed.subject
        while True:
            sources = subject.sources or await self._intake.find(subject.url, dict(subject.headers))
            source = None if sources is None else subject.source_of(sources)
            if source is not None:
                _say(followed, logging.INFO, f"publishes KV events at {source.endpoint or 'the bound address'}")
                return source
            _say(followed, logging.WARNING, f"{_why_not(subject, sources)}; its cache contents are predicted instead")
            await asyncio.sleep(self._ask_interval_s)


def _say(followed: _Followed, level: int, said: str) -> None:
    """Log the message *said*, unless the message logged last for this worker was the same."""
    if said != followed.said:
        followed.said = said
        _log.log(level, "worker %s %s", followed.subject.worker, said)


def _why_not(subject: SubscriptionTarget, sources: EventSources | None) -> str:
    if sources is None:
        return "does not report where it publishes KV events"
    if sources.refused_hosts:
        named = ", ".join(sources.refused_hosts)[:200]
        return f"publishes KV events at a host that kv_events.allowed_cidrs does not include: {named!r}"
    if not sources.of_ranks or subject.rank is not None:
        return "does not publish KV events"
    ranks = len(sources.of_ranks)
    return f"has {ranks} data-parallel ranks behind one address (set ranks: {ranks} for this worker)"


def _states(followed: _Followed) -> Iterator[Worker]:
    return (state for fleet in followed.fleets for state in fleet if state.id == followed.subject.worker)
