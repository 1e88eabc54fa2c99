"""Follows what the engines of workers tell of their caches, a subscription to each, for as long as it is a worker.

1. Where an engine tells of its cache it says itself, unless the settings do; it is asked again until it does.
2. What is predicted is held against what engines report. An index that lies is doubted, which begins it anew from what
   the engine still has; one that is not known to be complete is vouched for when it comes true.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from gateway.kv_events.counters import StreamCounters
from gateway.kv_events.feed import Feed, Trust
from gateway.kv_events.sources import Source, Sources
from gateway.kv_events.worker_feed import WorkerFeed
from routing.fleet import Fleet
from routing.worker import Worker

_log = logging.getLogger(__name__)

ASK_INTERVAL_S = 5.0
"""Between two questions to an engine that has not said where it tells of its cache."""
TICK_S = 1.0
SILENT_TICKS = 30
"""Without a connection for so long, an engine is asked again where it tells: a restart may have moved it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One worker to be followed; equal where a subscription can go on."""

    worker: WorkerId
    url: str
    headers: frozenset[tuple[str, str]] = field(repr=False)
    """By which its engine is asked. They hold its key."""
    model: str
    """What its engine loads, as `scope_of` has it for prompts."""
    sources: Sources | None
    """Where its engine tells of its cache, if the settings say so."""
    uid: str | None = None
    """With another one it is another worker at the same address."""
    rank: int | None = None
    """Its own among the streams of its address; None: it has the address to itself."""
    name: str | None = None
    """As engines that dial may call it; None: by its id."""

    def source_of(self, sources: Sources) -> Source | None:
        """Its own among *sources*; None if it is not there, or nobody can say which."""
        if self.rank is None:
            return sources.of_ranks[0] if len(sources.of_ranks) == 1 else None
        return next((source for source in sources.of_ranks if source.rank == self.rank), None)


class Subscription(Protocol):
    """One stream; see `gateway.kv_events.subscriber`."""

    @property
    def counters(self) -> StreamCounters: ...

    async def run(self) -> None: ...

    def doubt(self) -> None: ...

    def vouch(self) -> None: ...


class Intake(Protocol):
    """Finds and makes subscriptions; see `gateway.kv_events.intake`."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Subscriptions are made and run inside only."""
        ...

    async def find(self, url: str, headers: Mapping[str, str]) -> Sources | None:
        """Where the engine at *url* tells of its cache, by its own account; None if it does not say."""
        ...

    def subscribe(self, source: Source, feed: Feed, *, worker: str, url: str) -> Subscription:
        """The subscription to *source*. Raises ValueError if it cannot be."""
        ...


@dataclass(slots=True, eq=False)
class _Followed:
    subject: Subject
    feed: WorkerFeed
    fleets: tuple[Fleet, ...]
    said: str = ""
    """What the log was told last of where its engine tells."""
    subscription: Subscription | None = None
    task: "asyncio.Task[None] | None" = None
    silent_ticks: int = 0
    """For how many ticks it has had no connection."""


class Followers:
    """Keeps *confirmed* in step with the engines; compares every *tick_s* while it runs.

    An engine that does not say where it tells is asked again every *ask_interval_s*.
    """

    def __init__(
        self,
        confirmed: Confirmed,
        intake: Intake,
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

    def attend(self, subjects: Mapping[Subject, Iterable[Fleet]]) -> None:
        """Follow *subjects*, each for its fleets, from this moment on, and nobody else; those that stay go on."""
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
        """Follow until cancelled."""
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

    def begin_anew(self) -> None:
        """Hear from every engine again what it has: what was told before cannot be used any more."""
        for followed in [*self._followed.values()]:
            self._begin_anew(followed)

    def state(self, worker: WorkerId) -> Trust | None:
        """How far what *worker*'s engine tells can be relied on; None: nobody listens to it."""
        followed = self._followed.get(worker)
        return None if followed is None else followed.feed.state

    def subjects(self) -> dict[WorkerId, Subject]:
        """Whom it follows."""
        return {worker: followed.subject for worker, followed in self._followed.items()}

    def blocks_heard(self, worker: WorkerId) -> int:
        """How many blocks *worker*'s engine has told of."""
        followed = self._followed.get(worker)
        subscription = None if followed is None else followed.subscription
        return 0 if subscription is None else subscription.counters.blocks["stored"]

    def counters(self) -> dict[WorkerId, StreamCounters]:
        """What the streams came to; workers whose engines have not said where they tell are absent."""
        return {
            worker: followed.subscription.counters
            for worker, followed in self._followed.items()
            if followed.subscription is not None
        }

    def compare(self) -> None:
        """Hold what was predicted against what engines reported, and draw the consequences."""
        for followed in [*self._followed.values()]:
            subscription = followed.subscription
            if subscription is None:
                continue
            if self._is_silent(followed, subscription.counters):
                self._begin_anew(followed)
            else:
                self._judge(followed, subscription)

    def _is_silent(self, followed: _Followed, counters: StreamCounters) -> bool:
        """Whether the engine should be asked again where it tells of its cache."""
        followed.silent_ticks = followed.silent_ticks + 1 if counters.doubt == "not_connected" else 0
        return followed.silent_ticks >= SILENT_TICKS and followed.subject.sources is None

    def _judge(self, followed: _Followed, subscription: Subscription) -> None:
        """What one model's requests show of the worker holds for all models that it serves: its cache is one."""
        worker, state = followed.subject.worker, followed.feed.state
        accuracies = [state.told_accuracy for state in _states(followed)]
        is_lying = any(accuracy.is_lying for accuracy in accuracies)
        if is_lying and state == "live":
            _log.warning("worker %s does not have what its engine tells: that is begun anew", worker)
            subscription.doubt()
            for accuracy in accuracies:
                accuracy.forget()
        elif not is_lying and state == "stale" and any(accuracy.is_proven for accuracy in accuracies):
            _log.info("worker %s has what its engine told: that is relied on", worker)
            subscription.vouch()

    def _made(self, subject: Subject) -> _Followed:
        return _Followed(subject, WorkerFeed(subject.worker, self._confirmed, model=subject.model), ())

    def _begin(self, followed: _Followed) -> None:
        if followed.task is None and self._tasks is not None:
            followed.task = self._tasks.create_task(self._follow(followed))

    def _begin_anew(self, former: _Followed) -> None:
        """With a feed of its own: what is still on its way to the former one counts no more."""
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
            _log.error("worker %s is not listened to: %s", subject.worker, fault)
            return
        followed.subscription = subscription
        await subscription.run()

    async def _source_of(self, followed: _Followed) -> Source:
        """Its one source, as soon as there is one."""
        subject = followed.subject
        while True:
            sources = subject.sources or await self._intake.find(subject.url, dict(subject.headers))
            source = None if sources is None else subject.source_of(sources)
            if source is not None:
                _say(followed, logging.INFO, f"tells of its cache at {source.endpoint or 'the bound address'}")
                return source
            _say(followed, logging.WARNING, f"{_why_not(subject, sources)}: what was sent there has to do")
            await asyncio.sleep(self._ask_interval_s)


def _say(followed: _Followed, level: int, said: str) -> None:
    """Once: an engine is asked again and again."""
    if said != followed.said:
        followed.said = said
        _log.log(level, "worker %s %s", followed.subject.worker, said)


def _why_not(subject: Subject, sources: Sources | None) -> str:
    if sources is None:
        return "does not say where it tells of its cache"
    if sources.refused_hosts:
        named = ", ".join(sources.refused_hosts)[:200]
        return f"names another host for its events, which kv_events.allowed_cidrs does not have: {named!r}"
    if not sources.of_ranks or subject.rank is not None:
        return "does not tell of its cache"
    return f"has {len(sources.of_ranks)} data-parallel ranks behind one address, and the settings do not say so (ranks)"


def _states(followed: _Followed) -> Iterator[Worker]:
    return (state for fleet in followed.fleets for state in fleet if state.id == followed.subject.worker)
