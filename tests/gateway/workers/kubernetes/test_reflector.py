"""Keeping in step with what the API server has, whatever it does."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from gateway.workers.kubernetes.api import ObjectChange, ObjectList
from gateway.workers.kubernetes.collection import Collection, ObjectT, pods_with
from gateway.workers.kubernetes.kubernetes_error import KubernetesError, VersionExpired
from gateway.workers.kubernetes.objects import Metadata, Pod
from gateway.workers.kubernetes.reflector import (
    FIRST_S,
    LONGEST_S,
    LONGEST_WISH_S,
    Backoff,
    Reflector,
    ReflectorIntervals,
)
from tests.gateway.examples import Clock

PODS = pods_with("app=vllm", "default")
Reported = list[ObjectChange[Pod]]


def pod(name: str) -> Pod:
    return Pod(Metadata(name=name, namespace="default"))


def event(change: str, name: str) -> ObjectChange[Pod]:
    assert change in ("ADDED", "MODIFIED", "DELETED")
    return ObjectChange(change, pod(name))  # type: ignore[arg-type]  # one of them, as was just seen


class Script:
    """An API server that does what it is notified, call by call, and then hangs; implements `Api`."""

    def __init__(self, clock: Clock, *steps: str | Exception | Sequence[Reported | Exception | float]) -> None:
        """A text lists pods by their letters, a sequence is a watch: batches, faults, and seconds that pass."""
        self._clock = clock
        self._steps = list(steps)
        self.calls: list[str] = []

    async def _next(self, call: str) -> str | Exception | Sequence[Reported | Exception | float]:
        self.calls.append(call)
        if not self._steps:
            await asyncio.Event().wait()
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    async def list_all(self, collection: Collection[ObjectT]) -> ObjectList[ObjectT]:
        step = await self._next("list")
        assert isinstance(step, str)
        return ObjectList(tuple(map(pod, step)), str(len(self.calls)))  # type: ignore[arg-type]  # all are pods here

    async def watch(
        self, collection: Collection[ObjectT], version: str, *, lasts_s: float, silence_s: float
    ) -> AsyncGenerator[list[ObjectChange[ObjectT]], None]:
        steps = await self._next(f"watch from {version}")
        assert not isinstance(steps, str | Exception)
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, float):
                self._clock.now += step
            else:
                yield step  # type: ignore[misc]  # all are pods here


class Stage:
    """A reflector before a script, and the pauses that it made."""

    def __init__(
        self,
        *steps: str | Exception | Sequence[Reported | Exception | float],
        pace: ReflectorIntervals = ReflectorIntervals(),  # noqa: B008
    ) -> None:
        self.clock = Clock(0.0)
        self.api = Script(self.clock, *steps)
        self.pauses: list[float] = []

        async def sleep(pause_s: float) -> None:
            self.pauses.append(pause_s)

        self.reflector = Reflector(self.api, PODS, pace, clock=self.clock, rng=random.Random(1), sleep=sleep)

    async def snapshots(self, count: int) -> list[str]:
        """The next *count*, as ``origin:letters``."""
        seen = []
        async with asyncio.timeout(60), aclosing(self.reflector.snapshots()) as snapshots:
            async for snapshot in snapshots:
                letters = "".join(each.metadata.name for each in snapshot.objects)
                seen.append(f"{snapshot.origin}:{letters}")
                if len(seen) == count:
                    break
        return seen


async def test_it_lists_and_watches_from_there() -> None:
    """Each batch is a whole set."""
    stage = Stage(
        "ab", [[event("ADDED", "c"), event("DELETED", "a")], [event("MODIFIED", "b")], [ObjectChange("BOOKMARK", None)]]
    )

    assert ["list:ab", "watch:bc", "watch:bc", "watch:bc"] == await stage.snapshots(4)
    assert ["list", "watch from 1"] == stage.api.calls


async def test_after_any_end_of_a_watch_everything_is_listed() -> None:
    """At once, if it lasted; what the list says counts, also if it is empty: a DELETED may have been lost."""
    stage = Stage("ab", [30.0], "a", [30.0, VersionExpired()], "", [30.0, KubernetesError("broken")], "c")

    assert ["list:ab", "list:a", "list:", "list:c"] == await stage.snapshots(4)
    assert ["list", "watch from 1", "list", "watch from 3", "list", "watch from 5", "list"] == stage.api.calls
    assert [0.0, 0.0] == stage.pauses[:2]
    assert 0 < stage.pauses[2] <= FIRST_S


async def test_while_the_server_is_away_the_last_set_stays() -> None:
    """Also for long; what failed is said."""
    away = KubernetesError("it is away")
    stage = Stage("ab", [30.0], away, away, away, "b")

    assert ["list:ab", "kept:ab", "kept:ab", "kept:ab", "list:b"] == await stage.snapshots(5)
    assert [0.0] == stage.pauses[:1]
    assert stage.pauses[1] < stage.pauses[2] < stage.pauses[3]


async def test_before_the_first_list_there_is_no_one() -> None:
    assert ["kept:", "list:a"] == await Stage(KubernetesError("it is away"), "a").snapshots(2)


async def test_a_server_that_wants_to_be_left_alone_is() -> None:
    """In a list as in a watch."""
    busy = KubernetesError("the API server returned status 429", status=429, retry_after_s=7.0)
    stage = Stage(busy, "a", [busy], "a")
    await stage.snapshots(3)

    assert [7.0, 7.0] == stage.pauses


async def test_a_watch_that_ends_as_it_begins_is_a_failure() -> None:
    """Else a server that ends each at once would be asked for lists without a pause."""
    at_once: list[Reported | Exception | float] = []
    stage = Stage("a", at_once, "a", at_once, "a", at_once, "a", at_once, "a", at_once, "a")
    await stage.snapshots(6)

    assert sorted(stage.pauses) == stage.pauses
    assert stage.pauses[-1] > 4 * stage.pauses[0] > 0


async def test_anyone_who_doubts_a_watch_gets_a_list() -> None:
    """After the pause that it asks for; or what is known, if no one can be asked."""
    stage = Stage(
        "ab",
        [[event("DELETED", "a")], [event("DELETED", "b")]],
        "ab",
        [[event("DELETED", "a")]],
        KubernetesError("away"),
    )
    seen = []
    async with asyncio.timeout(60), aclosing(stage.reflector.snapshots()) as snapshots:
        async for snapshot in snapshots:
            seen.append((snapshot.origin, len(snapshot.objects)))
            if snapshot.origin == "watch":
                stage.reflector.ask_again(0.25)
            if snapshot.origin == "kept":
                break

    assert [("list", 2), ("watch", 1), ("list", 2), ("watch", 1), ("kept", 1)] == seen
    assert [0.25, 0.25] == stage.pauses


async def test_a_watch_is_left_open_for_no_longer_than_until_the_next_list() -> None:
    """Its own limit counts as well; a little less each time, so that gateways do not ask together."""
    seen: list[float] = []

    class Noting(Script):
        async def watch(
            self, collection: Collection[ObjectT], version: str, *, lasts_s: float, silence_s: float
        ) -> AsyncGenerator[list[ObjectChange[ObjectT]], None]:
            seen.append(lasts_s)
            async for batch in super().watch(collection, version, lasts_s=lasts_s, silence_s=silence_s):
                yield batch

    for pace in (ReflectorIntervals(relist_s=30, watch_s=240), ReflectorIntervals(relist_s=600, watch_s=240)):
        stage = Stage(pace=pace)
        stage.reflector._api = Noting(stage.clock, "a", [30.0], "a", [30.0], "a")
        await stage.snapshots(3)

    assert [True, True] == [27 <= lasts_s <= 30 for lasts_s in seen[:2]]
    assert [True, True] == [216 <= lasts_s <= 240 for lasts_s in seen[2:]]
    assert 4 == len(set(seen))


@pytest.mark.parametrize("seed", range(20))
def test_pauses_grow_up_to_a_bound(seed: int) -> None:
    """Each somewhere in its upper half, and no wish is granted for ever."""
    backoff = Backoff(random.Random(seed))
    pauses = [backoff.pause_s() for _ in range(12)]
    whole = [min(FIRST_S * 2**i, LONGEST_S) for i in range(12)]

    assert [True] * 12 == [most / 2 <= pause_s <= most for pause_s, most in zip(pauses, whole, strict=True)]
    assert LONGEST_WISH_S == backoff.pause_s(3600.0)
    backoff.reset()
    assert backoff.pause_s() <= FIRST_S
