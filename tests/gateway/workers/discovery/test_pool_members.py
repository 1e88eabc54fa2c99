"""Discovery of the members of an InferencePool from an API server."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.app.mapping.workers import parsed_workers
from gateway.workers.discovery.discoveries import Discoveries
from gateway.workers.discovery.inference_pool import PoolSource
from gateway.workers.discovery.pool_members import selector_of
from gateway.workers.discovery.source import WorkerSource
from gateway.workers.kubernetes.access import ApiAccess
from gateway.workers.kubernetes.objects import InferencePool, InferencePoolSpec, Metadata, PoolSelector
from gateway.workers.kubernetes.reflector import ReflectorIntervals
from tests.kubernetes_api import KubernetesApi, a_pod, a_pool, a_rewrite, a_rewrite_rule, an_objective, kubernetes_api

A, B = a_pod("a", "10.0.0.1"), a_pod("b", "10.0.0.2")
OTHER = a_pod("x", "10.0.0.9", labels={"app": "other"})


@dataclass
class Stage:
    """An API server, and the workers that are found there."""

    api: KubernetesApi
    sets: "asyncio.Queue[list[str]]"
    discoveries: Discoveries
    refused: list[str] = field(default_factory=list)

    async def found(self) -> list[str]:
        async with asyncio.timeout(60):
            return await self.sets.get()

    async def watchers(self, count: int) -> None:
        """Wait until *count* watches are open."""
        async with asyncio.timeout(60):
            while self.api.watchers != count:
                await asyncio.sleep(0.002)

    async def priorities(self, wanted: dict[str, int]) -> None:
        """Wait until the objectives of the model have the priorities *wanted*."""
        async with asyncio.timeout(60):
            while self.discoveries.objectives.of("tiny").priorities != wanted:
                await asyncio.sleep(0.002)

    async def rewritten(self, name: str, wanted: list[str]) -> None:
        """Wait until the targets for *name* are *wanted*."""
        rewrites = self.discoveries.rewrites.of("tiny")
        async with asyncio.timeout(60):
            while [*(rule.targets if (rule := rewrites.rules.rule(name)) else ())] != wanted:
                await asyncio.sleep(0.002)

    async def status(self, **wanted: object) -> dict[str, Any]:
        """Wait until the status of the source has the values *wanted*, and return it."""
        async with asyncio.timeout(60):
            while True:
                report: dict[str, Any] = (
                    self.discoveries.discovery_status.report().get("tiny", {}).get("inference_pool", {})
                )
                if report.items() >= wanted.items():
                    return report
                await asyncio.sleep(0.002)


@asynccontextmanager
async def stage(
    *things: dict[str, Any],
    relist_s: float = 60.0,
    away: bool = False,
    has_objectives: bool = False,
    has_rewrites: bool = False,
) -> AsyncIterator[Stage]:
    """A discovery of the pool ``llama``; by default whatever comes later comes by the watches."""
    async with kubernetes_api(*things) as api, asyncio.TaskGroup() as tasks:
        if away:
            await api.go_away()
        discoveries = Discoveries(
            *(ApiAccess(api.url, namespace="default", service_account=Path("/nowhere")), ReflectorIntervals(relist_s)),
            parse=parsed_workers,
            clock=asyncio.get_running_loop().time,
            rng=random.Random(1),
        )
        there = Stage(api, asyncio.Queue(), discoveries)
        discovery = discoveries.make(
            WorkerSource("tiny", PoolSource("llama", has_objectives=has_objectives, has_rewrites=has_rewrites)),
            there.refused.extend,
        )

        async def follow() -> None:
            async with aclosing(discovery.watch()) as found:
                async for workers in found:
                    there.sets.put_nowait([f"{worker.id}={worker.url[7:]}" for worker in workers])

        following = tasks.create_task(follow())
        yield there
        following.cancel()


async def test_pods_of_the_pool_come_and_go() -> None:
    """Pods that the pool does not select are not workers, and no pool of another name matters."""
    async with stage(a_pool("llama", 8000), a_pool("other", 1, labels={"app": "other"}), A, OTHER) as there:
        seen = [await there.found()]
        await there.watchers(2)
        there.api.put(B)
        seen.append(await there.found())
        there.api.delete("Pod", "a")
        seen.append(await there.found())
        queries = [asked.query for asked in there.api.asked]

    assert [["a=10.0.0.1:8000"], ["a=10.0.0.1:8000", "b=10.0.0.2:8000"], ["b=10.0.0.2:8000"]] == seen
    selectors = {(query.get("fieldSelector"), query.get("labelSelector")) for query in queries}
    assert {("metadata.name=llama", None), (None, "app=vllm")} == selectors


async def test_changes_of_the_pool_are_followed() -> None:
    """Its ports and its selector, and also its end and its return."""
    async with stage(a_pool("llama", 8000), A, OTHER) as there:
        seen = [await there.found()]
        await there.watchers(2)
        there.api.put(a_pool("llama", 8000, 8001))
        seen.append(await there.found())
        await there.watchers(2)
        there.api.put(a_pool("llama", 8000, labels={"app": "other"}))
        seen.append(await there.found())
        await there.watchers(2)
        there.api.delete("InferencePool", "llama")
        seen.append(await there.found())
        await there.watchers(1)
        there.api.put(a_pool("llama", 8000))
        seen.append(await there.found())

    both = ["a-rank-0=10.0.0.1:8000", "a-rank-1=10.0.0.1:8001"]
    assert [["a=10.0.0.1:8000"], both, ["x=10.0.0.9:8000"], [], ["a=10.0.0.1:8000"]] == seen


async def test_a_pool_may_come_after_the_gateway(caplog: pytest.LogCaptureFixture) -> None:
    """Meanwhile there are no workers, and the log says why, once."""
    with caplog.at_level(logging.WARNING):
        async with stage(A, relist_s=0.05) as there:
            seen = [await there.found()]
            async with asyncio.timeout(60):
                while there.api.count(watches=False) < 3:
                    await asyncio.sleep(0.002)
            there.api.put(a_pool("llama", 8000))
            seen.append(await there.found())

    assert [[], ["a=10.0.0.1:8000"]] == seen
    assert ["the InferencePool llama does not exist"] == [record.getMessage() for record in caplog.records]


async def test_a_pool_that_selects_all_pods_is_refused_and_the_workers_stay() -> None:
    async with stage(a_pool("llama", 8000), A) as there:
        seen = [await there.found()]
        await there.watchers(2)
        there.api.put(a_pool("llama", 8000, labels={}))
        async with asyncio.timeout(60):
            while not there.refused:
                await asyncio.sleep(0.002)

    assert [["a=10.0.0.1:8000"]] == seen
    assert there.sets.empty()
    assert ["InferencePool llama: it has no labels in its selector."] == there.refused


async def test_objectives_of_the_pool_are_followed() -> None:
    """Workers stay as they are, whatever happens to the objectives."""
    urgent, other = (an_objective(name, 10, poolRef={"name": pool}) for name, pool in (("u", "llama"), ("o", "other")))
    async with stage(a_pool("llama", 8000), A, urgent, other, has_objectives=True) as there:
        seen = [await there.found()]
        await there.priorities({"u": 10})
        await there.watchers(3)
        there.api.put(an_objective("u", -1, poolRef={"name": "llama"}))
        await there.priorities({"u": -1})
        there.api.delete("InferenceObjective", "u")
        await there.priorities({})
        there.api.put(B)
        seen.append(await there.found())

    assert [["a=10.0.0.1:8000"], ["a=10.0.0.1:8000", "b=10.0.0.2:8000"]] == seen


async def test_objectives_that_cannot_be_read_do_not_matter(caplog: pytest.LogCaptureFixture) -> None:
    """Without the resource or the permission, workers are found, and the log says once what failed."""
    with caplog.at_level(logging.WARNING):
        async with stage(a_pool("llama", 8000), A, relist_s=0.05, has_objectives=True) as there:
            there.api.absent.add("InferenceObjective")
            seen = [await there.found()]
            async with asyncio.timeout(60):
                while sum("inferenceobjectives" in asked.path for asked in there.api.asked) < 3:
                    await asyncio.sleep(0.002)
            report = await there.status(synced=True, workers=1)

    assert [["a=10.0.0.1:8000"]] == seen
    assert "fault" not in report
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith("the InferenceObjectives of the InferencePool llama cannot be read: ")


async def test_rewrites_of_the_pool_are_followed(caplog: pytest.LogCaptureFixture) -> None:
    """An object that is refused is named in the log, once."""
    good = a_rewrite("good", a_rewrite_rule(["chat"], {"tiny": None}))
    bad = a_rewrite("bad", a_rewrite_rule(["chat"], {}))
    with caplog.at_level(logging.WARNING):
        async with stage(a_pool("llama", 8000), A, good, bad, has_rewrites=True) as there:
            await there.found()
            await there.rewritten("chat", ["tiny"])
            await there.watchers(3)
            there.api.put(a_rewrite("good", a_rewrite_rule(["chat"], {"big": 1})))
            await there.rewritten("chat", ["big"])
            there.api.delete("InferenceModelRewrite", "good")
            await there.rewritten("chat", [])

    assert ["InferenceModelRewrite bad: a rule has no targets."] == [each.getMessage() for each in caplog.records]


async def test_objectives_count_only_if_the_settings_say_so() -> None:
    async with stage(a_pool("llama", 8000), A, an_objective("u", 10, poolRef={"name": "llama"})) as there:
        await there.found()
        paths = [asked.path for asked in there.api.asked]

    assert not any("inferenceobjectives" in path for path in paths)


async def test_an_absent_api_server_changes_nothing() -> None:
    async with stage(a_pool("llama", 8000), A, relist_s=0.05, away=True) as there:
        seen = [await there.found()]
        await there.status(synced=False)
        await there.api.come_back()
        seen.append(await there.found())
        await there.status(synced=True, workers=1)
        await there.api.go_away()
        async with asyncio.timeout(60):
            while "fault" not in await there.status(workers=1):
                await asyncio.sleep(0.002)
        there.api.put(B)
        await there.api.come_back()
        seen.append(await there.found())
        report = await there.status(synced=True, workers=2)

    assert [[], ["a=10.0.0.1:8000"], ["a=10.0.0.1:8000", "b=10.0.0.2:8000"]] == seen
    assert "fault" not in report


def test_the_selector_has_all_labels_in_one_order() -> None:
    def pool(labels: dict[str, str] | None) -> InferencePool:
        return InferencePool(Metadata(), InferencePoolSpec(PoolSelector(labels)))

    assert "app=vllm,model=a" == selector_of(pool({"model": "a", "app": "vllm"}))
    assert "" == selector_of(pool({})) == selector_of(pool(None))
