"""Keeps a copy of a collection: list, watch from there, and list again, whatever happened in between.

1. A watch is never relied on: it may end without notice, or hang. Everything is listed again each
   `ReflectorIntervals.relist_s`, and the list counts, even if it is empty.
2. After any end of a watch everything is listed; a watch is never continued.
3. While the API server does not answer, the last copy stays.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, Literal

from gateway.workers.kubernetes.api import Api, ObjectChange
from gateway.workers.kubernetes.collection import Collection, ObjectT
from gateway.workers.kubernetes.kubernetes_error import KubernetesError, VersionExpired
from gateway.workers.kubernetes.objects import Metadata

_log = logging.getLogger(__name__)

SILENCE_S: Final = 75.0
"""Silence after which a watch is dead: a bookmark comes about every minute."""
JITTER: Final = 0.1
"""Share by which intervals are shortened, so that gateways that began together do not stay together."""
FIRST_S: Final = 0.2
LONGEST_S: Final = 10.0
"""Longest pause after failures; each is twice as long as the one before."""
SHORTEST_S: Final = 1.0
"""Time within which a watch that ends without any change counts as a failure."""
LONGEST_WISH_S: Final = 60.0
"""Longest delay that the API server can ask for."""

Origin = Literal["list", "watch", "kept"]


@dataclass(frozen=True, slots=True)
class ReflectorIntervals:
    """Intervals between questions."""

    relist_s: float = 30.0
    watch_s: float = 240.0
    silence_s: float = SILENCE_S


@dataclass(frozen=True, slots=True)
class CollectionSnapshot(Generic[ObjectT]):
    """All known objects of the collection."""

    objects: tuple[ObjectT, ...]
    origin: Origin
    """``list``: certain; ``watch``: by the changes that a watch sent; ``kept``: the API server did not answer."""
    fault: str = ""
    """Reason why it did not answer."""


class Backoff:
    """Pauses after failures, up to *LONGEST_S*, with jitter."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next_s = FIRST_S

    def reset(self) -> None:
        self._next_s = FIRST_S

    def pause_s(self, wished_s: float | None = None) -> float:
        """Return the next pause, at least *wished_s*."""
        pause_s = self._next_s * self._rng.uniform(0.5, 1.0)
        self._next_s = min(2 * self._next_s, LONGEST_S)
        return max(pause_s, min(wished_s or 0.0, LONGEST_WISH_S))


class Reflector(Generic[ObjectT]):
    """Follows one *collection*. *clock* gives seconds, *sleep* waits for some."""

    def __init__(
        self,
        api: Api,
        collection: Collection[ObjectT],
        pace: ReflectorIntervals,
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
        """Pause before the next list."""

    def ask_again(self, in_s: float) -> None:
        """List everything after *in_s*: the caller doubts a snapshot of a watch."""
        self._wanted_in_s = in_s

    async def snapshots(self) -> AsyncGenerator[CollectionSnapshot[ObjectT], None]:
        """Yield a snapshot after each list, each batch of a watch, and each failure to list; it never ends.

        The caller has to close it.
        """
        while True:
            self._wanted_in_s = None
            try:
                listed = await self._api.list_all(self._collection)
            except KubernetesError as fault:
                yield self._snapshot("kept", str(fault))
                self._pause_s = self._backoff.pause_s(fault.retry_after_s)
            else:
                self._objects = {_key(each.metadata): each for each in listed.objects}
                yield self._snapshot("list")
                async with aclosing(self._watched(listed.version)) as watched:
                    async for snapshot in watched:
                        yield snapshot
            await self._sleep(self._pause_s)

    async def _watched(self, version: str) -> AsyncGenerator[CollectionSnapshot[ObjectT], None]:
        """Yield the snapshots of a watch from *version*, until everything has to be listed again."""
        pace, began = self._pace, self._clock()
        lasts_s = min(pace.relist_s, pace.watch_s) * self._rng.uniform(1.0 - JITTER, 1.0)
        has_changes, wished_s, is_broken = False, None, False
        try:
            batches = self._api.watch(self._collection, version, lasts_s=lasts_s, silence_s=pace.silence_s)
            async with aclosing(batches):
                async for events in batches:
                    has_changes = True
                    self._apply(events)
                    yield self._snapshot("watch")
                    if self._wanted_in_s is not None:
                        break
        except VersionExpired:
            pass  # that is how versions are: they end
        except KubernetesError as fault:
            is_broken, wished_s = True, fault.retry_after_s
            _log.info("watching %s failed: %s; listing them again", self._collection.resource, fault)
        if has_changes or self._clock() - began >= min(SHORTEST_S, lasts_s / 2):
            self._backoff.reset()
        elif self._wanted_in_s is None:
            is_broken = True  # whatever it says: a watch that ends as it begins would have us list without a pause
        self._pause_s = self._backoff.pause_s(wished_s) if is_broken else self._wanted_in_s or 0.0

    def _apply(self, events: Sequence[ObjectChange[ObjectT]]) -> None:
        for event in events:
            if event.object is None:
                continue
            key = _key(event.object.metadata)
            if event.change == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = event.object

    def _snapshot(self, origin: Origin, fault: str = "") -> CollectionSnapshot[ObjectT]:
        return CollectionSnapshot(tuple(self._objects.values()), origin, fault)


def _key(metadata: Metadata) -> tuple[str, str]:
    return metadata.namespace, metadata.name
