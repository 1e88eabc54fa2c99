"""Subscribes to the KV events of each worker's engine for as long as it is a worker.

1. The settings or the engine itself say where it publishes; an engine that does not say is asked again until it does.
2. Predictions are compared with the hits that engines report. An index whose predictions are wrong is rebuilt from what
   the engine still has; an incomplete one is trusted once its predictions match.
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
"""Time between two questions to an engine that has not said where it publishes."""
TICK_S = 1.0
SILENT_TICKS = 30
"""Ticks without a connection after which an engine is asked again where it publishes: a restart may have moved it."""


@dataclass(frozen=True, slots=True)
class SubscriptionTarget:
    """One worker to subscribe to; equal while a subscription can go on."""

    worker: WorkerId
    url: str
    headers: frozenset[tuple[str, str]] = field(repr=False)
    """Headers for questions to its engine. They hold its key."""
    model: str
    """The model that its engine loads, as `scope_of` has it for prompts."""
    sources: EventSources | None
    """Addresses at which its engine publishes, if the settings have them."""
    uid: str | None = None
    """Identity of its pod: another one is another worker at the same address."""
    rank: int | None = None
    """Rank among the streams of its address; None: the address is not shared."""
    name: str | None = None
    """Name by which engines that dial may call it; None: its id."""

    def source_of(self, sources: EventSources) -> EventSource | None:
        """Return the source of its rank among *sources*; None if it is missing, or not known."""
        if self.rank is None:
            return sources.of_ranks[0] if len(sources.of_ranks) == 1 else None
        return next((source for source in sources.of_ranks if source.rank == self.rank), None)


class Subscription(Protocol):
    """One stream; see `gateway.workers.kv_events.subscriber`."""

    @property
    def counters(self) -> StreamCounters: ...

    async def run(self) -> None: ...

    def doubt(self) -> None: ...

    def vouch(self) -> None: ...


class EventIntake(Protocol):
    """Finds and makes subscriptions; see `gateway.workers.kv_events.intake`."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Open what subscriptions share: they are made and run inside of this context only."""
        ...

    async def find(self, url: str, headers: Mapping[str, str]) -> EventSources | None:
        """Ask the engine at *url* where it publishes; None if it does not say."""
        ...

    def subscribe(self, source: EventSource, feed: Feed, *, worker: str, url: str) -> Subscription:
        """Return the subscription to *source*. Raises ValueError if it is impossible."""
        ...


@dataclass(slots=True, eq=False)
class _Followed:
    subject: SubscriptionTarget
    feed: WorkerFeed
    fleets: tuple[Fleet, ...]
    said: str = ""
    """Last line that was logged about where its engine publishes."""
    subscription: Subscription | None = None
    task: "asyncio.Task[None] | None" = None
    silent_ticks: int = 0
    """Ticks in a row without a connection."""


class EventSubscriptions:
    """Keeps *confirmed* in step with the engines, and judges the predictions every *tick_s*.

    An engine that does not say where it publishes is asked again every *ask_interval_s*.
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
        """Subscribe to *subjects*, each for its fleets, and to no others; those that stay go on."""
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
        """Read the cache of every engine again: what was heard before can no longer be used."""
        for followed in [*self._followed.values()]:
            self._restart(followed)

    def state(self, worker: WorkerId) -> Trust | None:
        """Return how far the events of *worker*'s engine can be trusted; None: there is no subscription."""
        followed = self._followed.get(worker)
        return None if followed is None else followed.feed.state

    def subjects(self) -> dict[WorkerId, SubscriptionTarget]:
        """Return the workers that have a subscription, or are about to have one."""
        return {worker: followed.subject for worker, followed in self._followed.items()}

    def blocks_heard(self, worker: WorkerId) -> int:
        """Return the number of blocks that *worker*'s engine has reported as stored."""
        followed = self._followed.get(worker)
        subscription = None if followed is None else followed.subscription
        return 0 if subscription is None else subscription.counters.blocks["stored"]

    def counters(self) -> dict[WorkerId, StreamCounters]:
        """Return the counters of all streams; workers whose engines have not said where they publish are absent."""
        return {
            worker: followed.subscription.counters
            for worker, followed in self._followed.items()
            if followed.subscription is not None
        }

    def compare(self) -> None:
        """Compare predictions with the hits that engines reported, and doubt or trust each index."""
        for followed in [*self._followed.values()]:
            subscription = followed.subscription
            if subscription is None:
                continue
            if self._is_silent(followed, subscription.counters):
                self._restart(followed)
            else:
                self._judge(followed, subscription)

    def _is_silent(self, followed: _Followed, counters: StreamCounters) -> bool:
        """Return whether the engine should be asked again where it publishes."""
        followed.silent_ticks = followed.silent_ticks + 1 if counters.doubt == "not_connected" else 0
        return followed.silent_ticks >= SILENT_TICKS and followed.subject.sources is None

    def _judge(self, followed: _Followed, subscription: Subscription) -> None:
        """Judge a worker by the requests of all models that it serves: its cache is one."""
        worker, state = followed.subject.worker, followed.feed.state
        accuracies = [state.hit_accuracy.reported for state in _states(followed)]
        is_unreliable = any(accuracy.is_unreliable for accuracy in accuracies)
        if is_unreliable and state == "live":
            _log.warning("worker %s does not have the blocks that its engine reported: its index is rebuilt", worker)
            subscription.doubt()
            for accuracy in accuracies:
                accuracy.forget()
        elif not is_unreliable and state == "stale" and any(accuracy.is_proven for accuracy in accuracies):
            _log.info("worker %s has the blocks that its engine reported: its index is trusted", worker)
            subscription.vouch()

    def _made(self, subject: SubscriptionTarget) -> _Followed:
        return _Followed(subject, WorkerFeed(subject.worker, self._confirmed, model=subject.model), ())

    def _begin(self, followed: _Followed) -> None:
        if followed.task is None and self._tasks is not None:
            followed.task = self._tasks.create_task(self._follow(followed))

    def _restart(self, former: _Followed) -> None:
        """Replace the feed, so that events which are still on their way to the former one are ignored."""
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
        try:
            name = subject.name or subject.worker
            subscription = self._intake.subscribe(source, followed.feed, worker=name, url=subject.url)
        except ValueError as fault:
            _log.error("no KV events are read from worker %s: %s", subject.worker, fault)
            return
        followed.subscription = subscription
        await subscription.run()

    async def _source_of(self, followed: _Followed) -> EventSource:
        """Wait for its source."""
        subject = followed.subject
        while True:
            sources = subject.sources or await self._intake.find(subject.url, dict(subject.headers))
            source = None if sources is None else subject.source_of(sources)
            if source is not None:
                _say(followed, logging.INFO, f"publishes KV events at {source.endpoint or 'the bound address'}")
                return source
            _say(followed, logging.WARNING, f"{_why_not(subject, sources)}: its cache is predicted instead")
            await asyncio.sleep(self._ask_interval_s)


def _say(followed: _Followed, level: int, said: str) -> None:
    """Log a line once, as an engine is asked again and again."""
    if said != followed.said:
        followed.said = said
        _log.log(level, "worker %s %s", followed.subject.worker, said)


def _why_not(subject: SubscriptionTarget, sources: EventSources | None) -> str:
    if sources is None:
        return "does not say where it publishes KV events"
    if sources.refused_hosts:
        named = ", ".join(sources.refused_hosts)[:200]
        return f"names another host for its events, which kv_events.allowed_cidrs does not have: {named!r}"
    if not sources.of_ranks or subject.rank is not None:
        return "does not publish KV events"
    return f"has {len(sources.of_ranks)} data-parallel ranks behind one address, and the settings do not say so (ranks)"


def _states(followed: _Followed) -> Iterator[Worker]:
    return (state for fleet in followed.fleets for state in fleet if state.id == followed.subject.worker)
