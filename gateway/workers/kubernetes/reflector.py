"""Local copy of a collection of Kubernetes objects, kept up to date by list and watch calls in turn.

1. A watch may hang or end without notice. So all objects are listed again every `ReflectorIntervals.relist_s`, and the
   list replaces the copy, even if it is empty.
2. After a watch ends for any reason, all objects are listed again. A watch is never resumed.
3. While the API server does not answer, the last copy stays in use.
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
"""Seconds without data after which a watch counts as dead. The API server sends a bookmark about every minute."""
JITTER: Final = 0.1
"""Relative random reduction of intervals, which distributes the requests of gateways that started together."""
FIRST_S: Final = 0.2
LONGEST_S: Final = 10.0
"""Maximum pause after a failure in seconds. Every pause is twice as long as the pause before."""
SHORTEST_S: Final = 1.0
"""Seconds within which the end of a watch without changes counts as a failure."""
LONGEST_WISH_S: Final = 60.0
"""Maximum retry delay in seconds that the API server can request."""

Origin = Literal["list", "watch", "kept"]


@dataclass(frozen=True, slots=True)
class ReflectorIntervals:
    """Time limits for list and watch calls, in seconds."""

    relist_s: float = 30.0
    watch_s: float = 240.0
    silence_s: float = SILENCE_S


@dataclass(frozen=True, slots=True)
class CollectionSnapshot(Generic[ObjectT]):
    """Copy of all objects in a collection, and how it was obtained."""

    objects: tuple[ObjectT, ...]
    origin: Origin
    """Source of the snapshot. ``list`` is a complete list, ``watch`` is a list with watched changes applied, and
    ``kept`` is the previous snapshot, because the API server did not answer.
    """
    fault: str = ""
    """Reason why the API server did not answer, or an empty string if it answered."""


class Backoff:
    """Pauses after failures. The pauses grow up to *LONGEST_S* seconds and vary randomly."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next_s = FIRST_S

    def reset(self) -> None:
        self._next_s = FIRST_S

    def pause_s(self, wished_s: float | None = None) -> float:
        """Return the next pause in seconds. It is at least *wished_s*, which is limited to `LONGEST_WISH_S`."""
        pause_s = self._next_s * self._rng.uniform(0.5, 1.0)
        self._next_s = min(2 * self._next_s, LONGEST_S)
        return max(pause_s, min(wished_s or 0.0, LONGEST_WISH_S))


class Reflector(Generic[ObjectT]):
    """Copy of one *collection* that is kept up to date. *clock* returns seconds, and *sleep* waits for a number of
    seconds.
    """

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
        """Seconds to wait before the next list call."""

    def ask_again(self, in_s: float) -> None:
        """List all objects again after *in_s* seconds. The caller uses this if a watched snapshot looks wrong."""
        self._wanted_in_s = in_s

    async def snapshots(self) -> AsyncGenerator[CollectionSnapshot[ObjectT], None]:
        """Yield a snapshot after each list, each batch of watched changes, and each failed list. The iterator never
        ends.

        The caller must close the iterator.
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
        """Yield snapshots of a watch that starts at the resource version *version*, until all objects must be listed
        again.
        """
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
            _log.info("the watch of %s failed and is replaced by a new list: %s", self._collection.resource, fault)
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
