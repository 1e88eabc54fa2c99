"""Workers found in Kubernetes; `tests/contracts/test_discovery.py` holds for them too."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.discovery.endpoints import ServiceSource, workers_of
from gateway.workers.discovery.kubernetes import KubernetesDiscovery
from gateway.workers.discovery.source import WorkerSource
from gateway.workers.kubernetes.access import ApiAccess
from gateway.workers.kubernetes.api import HttpApi
from gateway.workers.kubernetes.collection import slices_of
from gateway.workers.kubernetes.objects import EndpointSlice
from gateway.workers.kubernetes.reflector import Reflector, ReflectorIntervals
from gateway.workers.worker_spec import WorkerSpec
from tests.kubernetes_api import KubernetesApi, a_slice, an_endpoint, kubernetes_api

Workers = tuple[WorkerSpec, ...]

SERVICE = ServiceSource(name="vllm")
A, B, C = (an_endpoint(f"10.0.0.{number}", name) for number, name in enumerate("abc", 1))


@dataclass
class Stage:
    """An API server, and what is found there."""

    api: KubernetesApi
    sets: "asyncio.Queue[Workers]"
    discovery_status: DiscoveryStatus
    refused: list[str] = field(default_factory=list)

    async def found(self) -> list[str]:
        """Return the workers in the next set, those that drain with a mark."""
        return reported(await self.next())

    async def next(self) -> Workers:
        async with asyncio.timeout(60):
            return await self.sets.get()

    async def watched(self) -> None:
        """Wait until the API server is watched: what happens from now on is notified by that."""
        async with asyncio.timeout(60):
            while not self.api.watchers:
                await asyncio.sleep(0.002)

    async def lists(self, count: int) -> None:
        """Wait until everything was listed so often."""
        async with asyncio.timeout(60):
            while self.api.count(watches=False) < count:
                await asyncio.sleep(0.002)

    @property
    def source_status(self) -> dict[str, Any]:
        reported: dict[str, Any] = self.discovery_status.report()["tiny"]["service"]
        return reported


def reported(workers: Workers) -> list[str]:
    return [worker.id + ("!" if worker.draining else "") for worker in workers]


@asynccontextmanager
async def stage(*slices: dict[str, object], relist_s: float = 60.0, away: bool = False) -> AsyncIterator[Stage]:
    """A discovery of the *slices* of one service; by default whatever comes later comes by the watch."""
    clock = asyncio.get_running_loop().time
    discovery_status = DiscoveryStatus(clock=clock)
    refused: list[str] = []
    async with kubernetes_api(*slices) as api:
        if away:
            await api.go_away()
        client = HttpApi(ApiAccess(api.url, namespace="default", service_account=Path("/nowhere")))

        def reflector() -> Reflector[EndpointSlice]:
            pace = ReflectorIntervals(relist_s=relist_s)
            return Reflector(client, slices_of("vllm", None), pace, clock=clock, rng=random.Random(1))

        discovery = KubernetesDiscovery(
            WorkerSource("tiny", SERVICE),
            reflector,
            partial(workers_of, service=SERVICE),
            discovery_status=discovery_status,
            on_refused=refused.extend,
            settle_s=0.01,
        )
        sets: asyncio.Queue[Workers] = asyncio.Queue()

        async def follow() -> None:
            async with aclosing(discovery.watch()) as found:
                async for workers in found:
                    sets.put_nowait(workers)

        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(follow())
            yield Stage(api, sets, discovery_status, refused)
            following.cancel()


async def test_pods_come_end_and_go() -> None:
    """One that is to end drains from that moment on, and is gone when its endpoint is; nothing is listed for that."""
    async with stage(a_slice("s", A)) as there:
        seen = [await there.found()]
        await there.watched()
        for endpoints in ((A, B), (A, an_endpoint("10.0.0.2", "b", terminating=True)), (A,), ()):
            there.api.put(a_slice("s", *endpoints))
            if endpoints:
                seen.append(await there.found())
        lists = there.api.count(watches=False)

    assert [["a"], ["a", "b"], ["a", "b!"], ["a"]] == seen
    assert 1 == lists


async def test_what_changes_nothing_is_no_set() -> None:
    """A slice is written for many reasons."""
    async with stage(a_slice("s", A)) as there:
        await there.found()
        await there.watched()
        there.api.put(a_slice("s", A, ports=({"name": "http", "port": 8000, "appProtocol": "http"},)))
        there.api.put(a_slice("s", A, B))

        assert ["a", "b"] == await there.found()


async def test_slices_may_be_merged_without_anybody_being_lost() -> None:
    """One after the other: for a moment an endpoint stands in none of them."""
    async with stage(a_slice("s1", A), a_slice("s2", B)) as there:
        seen = [await there.found()]
        await there.watched()
        there.api.put(a_slice("s1"))
        await there.lists(2)
        there.api.put(a_slice("s2", A, B))
        there.api.delete("EndpointSlice", "s1")
        there.api.put(a_slice("s3", C))
        while "c" not in seen[-1]:
            seen.append(await there.found())

    assert {"a", "b", "c"} == set(seen[-1])


async def test_who_vanishes_without_a_word_is_gone_with_the_next_list() -> None:
    """A pod may be deleted by force; the list is asked for at once."""
    async with stage(a_slice("s", A, B)) as there:
        await there.found()
        await there.watched()
        there.api.put(a_slice("s", A))

        assert ["a"] == await there.found()
        assert 2 == there.api.count(watches=False)


async def test_an_address_that_is_used_again_is_another_worker() -> None:
    """Also under the same name."""
    async with stage(a_slice("s", A)) as there:
        (before,) = await there.next()
        await there.watched()
        there.api.put(a_slice("s", an_endpoint("10.0.0.1", "a", uid="another")))
        (after,) = await there.next()

    assert (before.id, before.url, "uid-of-a", "another") == (after.id, after.url, before.uid, after.uid)


@pytest.mark.parametrize("lost", [{"DELETED"}, {"ADDED", "MODIFIED", "DELETED"}])
async def test_what_no_watch_reports_is_found_by_the_next_list(lost: set[str]) -> None:
    """production-stack #1091."""
    async with stage(a_slice("s1", A), a_slice("s2", B), relist_s=0.2) as there:
        await there.found()
        there.api.faults.lost = lost
        there.api.delete("EndpointSlice", "s2")

        assert ["a"] == await there.found()


@pytest.mark.parametrize("fault", ["hung", "dropped", "expired", "cut"])
async def test_a_watch_that_breaks_is_begun_again(fault: str) -> None:
    """With a list before it, so that nothing of what happened meanwhile is missed."""
    async with stage(a_slice("s", A), relist_s=0.3 if fault == "hung" else 60.0) as there:
        await there.found()
        await there.watched()
        match fault:
            case "hung":
                there.api.faults.hung_watches = True
                there.api.drop_watches()
            case "dropped":
                there.api.drop_watches()
            case "expired":
                there.api.compact()
            case "cut":
                there.api.faults.cut_line = True
        there.api.put(a_slice("s", A, B))

        assert ["a", "b"] == await there.found()


async def test_an_api_server_that_is_away_takes_no_one_away(caplog: pytest.LogCaptureFixture) -> None:
    """The last set stays, its age grows, and it is said once; an empty list is another matter."""
    caplog.set_level(logging.WARNING)
    async with stage(a_slice("s", A), relist_s=0.1) as there:
        await there.found()
        await there.api.go_away()
        waiting = asyncio.ensure_future(there.found())
        async with asyncio.timeout(60):
            while "fault" not in there.source_status:
                await asyncio.sleep(0.005)
        there.api.faults.refused = [(500, None), (429, None)]
        assert (False, True, 1) == (waiting.done(), there.source_status["synced"], there.source_status["workers"])
        there.api.put(a_slice("s"))
        await there.api.come_back()

        assert [] == await waiting
        assert 0 == there.source_status["workers"]
    assert 1 == len([text for text in caplog.messages if "does not answer" in text])


async def test_without_an_api_server_there_is_no_one_at_first() -> None:
    """The start of the gateway does not wait for it, but it is not in step either."""
    async with stage(a_slice("s", A), away=True) as there:
        first = await there.found()
        assert (False, 0) == (there.source_status["synced"], there.source_status["workers"])
        await there.api.come_back()

        assert ([], ["a"]) == (first, await there.found())
        assert there.source_status["synced"]


async def test_endpoints_that_no_one_can_be_asked_at_are_no_set(caplog: pytest.LogCaptureFixture) -> None:
    """A Service that loses its port by mistake does not cost all workers; what is wrong is notified once."""
    async with stage(a_slice("s", A)) as there:
        await there.found()
        await there.watched()
        for _ in range(2):
            there.api.put(a_slice("s", A, ports=()))
        await there.lists(2)
        there.api.put(a_slice("s", A, B))

        assert ["a", "b"] == await there.found()
    assert ["service vllm: it has no port, see its EndpointSlice s."] == there.refused


async def test_one_slice_that_is_no_good_costs_its_own_endpoints_only(caplog: pytest.LogCaptureFixture) -> None:
    """The log says which."""
    async with stage(a_slice("s1", A), a_slice("s2", B, ports=())) as there:
        assert ["a"] == await there.found()

    assert ["model tiny: service vllm: it has no port, see its EndpointSlice s2."] == caplog.messages


async def test_an_object_that_makes_no_worker_is_no_set() -> None:
    """What no one foresaw must not end the search."""
    async with stage(a_slice("s", A)) as there:
        await there.found()
        await there.watched()
        there.api.put(a_slice("s", an_endpoint("no address", "a")))
        await there.lists(2)
        there.api.put(a_slice("s", A, B))

        assert ["a", "b"] == await there.found()
    assert ["a Kubernetes object has no valid worker address or id."] == there.refused
