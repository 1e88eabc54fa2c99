"""Keeps in step with what the API server has: list, watch from there, and list again, whatever happened in between.

1. A watch is never relied on: it may end without a word, or go on without one. Everything is listed anew each
   `Pace.relist_s`, and what the list says counts, also if it is empty.
2. After any end of a watch everything is listed; nothing is gone on from.
3. While the API server is away, what was known last stays.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, Literal

from gateway.kubernetes.api import Api, Event
from gateway.kubernetes.api_error import ApiError, VersionExpired
from gateway.kubernetes.collection import Collection, ObjectT
from gateway.kubernetes.objects import Metadata

_log = logging.getLogger(__name__)

SILENCE_S: Final = 75.0
"""A watch that brings nothing for so long is dead: a bookmark comes about every minute."""
JITTER: Final = 0.1
"""Share by which intervals are shortened, so that gateways that began together do not stay together."""
FIRST_S: Final = 0.2
LONGEST_S: Final = 10.0
"""Of the pauses after failures: twice as long each time."""
SHORTEST_S: Final = 1.0
"""A watch that ends sooner and brought nothing is a failure."""
LONGEST_WISH_S: Final = 60.0
"""What the API server asks to be left alone for is granted up to this."""

Origin = Literal["list", "watch", "kept"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often what is asked."""

    relist_s: float = 30.0
    watch_s: float = 240.0
    silence_s: float = SILENCE_S


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[ObjectT]):
    """All objects that there are, as far as is known."""

    objects: tuple[ObjectT, ...]
    origin: Origin
    """``list``: it is so; ``watch``: so it was told; ``kept``: nobody could be asked."""
    fault: str = ""
    """Why nobody could."""


class Backoff:
    """Pauses after failures, up to *LONGEST_S*, each somewhere in its upper half."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next_s = FIRST_S

    def reset(self) -> None:
        self._next_s = FIRST_S

    def pause_s(self, wished_s: float | None = None) -> float:
        """The next pause, and not below what is *wished*."""
        pause_s = self._next_s * self._rng.uniform(0.5, 1.0)
        self._next_s = min(2 * self._next_s, LONGEST_S)
        return max(pause_s, min(wished_s or 0.0, LONGEST_WISH_S))


class Reflector(Generic[ObjectT]):
    """Follows one *collection*. *clock* gives seconds, *sleep* waits for some."""

    def __init__(
        self,
        api: Api,
        collection: Collection[ObjectT],
        pace: Pace,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._collection = collection
        self._pace = pace
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._backoff = Backoff(rng)
        self._objects: dict[tuple[str, str], ObjectT] = {}
        self._wanted_in_s: float | None = None
        self._pause_s = 0.0
        """Before the next list."""

    def ask_again(self, in_s: float) -> None:
        """Whoever doubts a snapshot of a watch gets one of a list next, after *in_s*; or ``kept``, if there is none."""
        self._wanted_in_s = in_s

    async def snapshots(self) -> AsyncGenerator[Snapshot[ObjectT], None]:
        """One after each list, each batch of a watch, and each failure to list; without an end.

        To be closed by whoever began it.
        """
        while True:
            self._wanted_in_s = None
            try:
                listed = await self._api.list_all(self._collection)
            except ApiError as fault:
                yield self._snapshot("kept", str(fault))
                self._pause_s = self._backoff.pause_s(fault.retry_after_s)
            else:
                self._objects = {_key(each.metadata): each for each in listed.objects}
                yield self._snapshot("list")
                async with aclosing(self._watched(listed.version)) as told:
                    async for snapshot in told:
                        yield snapshot
            await self._sleep(self._pause_s)

    async def _watched(self, version: str) -> AsyncGenerator[Snapshot[ObjectT], None]:
        """What a watch from *version* tells, until everything has to be listed again."""
        pace, began = self._pace, self._clock()
        lasts_s = min(pace.relist_s, pace.watch_s) * self._rng.uniform(1.0 - JITTER, 1.0)
        has_told, wished_s, is_broken = False, None, False
        try:
            batches = self._api.watch(self._collection, version, lasts_s=lasts_s, silence_s=pace.silence_s)
            async with aclosing(batches):
                async for events in batches:
                    has_told = True
                    self._apply(events)
                    yield self._snapshot("watch")
                    if self._wanted_in_s is not None:
                        break
        except VersionExpired:
            pass  # that is how versions are: they end
        except ApiError as fault:
            is_broken, wished_s = True, fault.retry_after_s
            _log.info("watching %s: %s; they are listed again", self._collection.resource, fault)
        if has_told or self._clock() - began >= min(SHORTEST_S, lasts_s / 2):
            self._backoff.reset()
        elif self._wanted_in_s is None:
            is_broken = True  # whatever it says: a watch that ends as it begins would have us list without a pause
        self._pause_s = self._backoff.pause_s(wished_s) if is_broken else self._wanted_in_s or 0.0

    def _apply(self, events: Sequence[Event[ObjectT]]) -> None:
        for event in events:
            if event.object is None:
                continue
            key = _key(event.object.metadata)
            if event.change == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = event.object

    def _snapshot(self, origin: Origin, fault: str = "") -> Snapshot[ObjectT]:
        return Snapshot(tuple(self._objects.values()), origin, fault)


def _key(metadata: Metadata) -> tuple[str, str]:
    return metadata.namespace, metadata.name
