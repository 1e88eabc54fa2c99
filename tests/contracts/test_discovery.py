"""What the gateway expects of any `Discovery`: the whole set, at once and after each change."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gateway.app.mapping.workers import parsed_workers
from gateway.workers.discovery.discoveries import Discoveries
from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.discovery.dns import DnsDiscovery, DnsSource
from gateway.workers.discovery.endpoints import ServiceSource
from gateway.workers.discovery.file import FileDiscovery
from gateway.workers.discovery.inference_pool import PoolSource
from gateway.workers.discovery.source import WorkerSource
from gateway.workers.discovery.static import StaticDiscovery
from gateway.workers.kubernetes.access import ApiAccess
from gateway.workers.kubernetes.reflector import ReflectorIntervals
from gateway.workers.kv_events.sources import host_of
from gateway.workers.worker_spec import WorkerSpec
from tests.kubernetes_api import a_pod, a_pool, a_slice, an_endpoint, kubernetes_api

Sets = AsyncGenerator[tuple[WorkerSpec, ...], None]

A, B, C = (WorkerSpec(url=f"http://{letter}:1", id=letter) for letter in "abc")


async def next_of(sets: Sets) -> tuple[WorkerSpec, ...]:
    """The next set, which must not take long."""
    async with asyncio.timeout(60):
        return await anext(sets)


@dataclass
class Place:
    """Where workers are found, and how to change them; None where nothing can change."""

    discovery: Discovery
    change: Callable[[Sequence[WorkerSpec]], None] | None


Open = Callable[[Path, Sequence[WorkerSpec]], AbstractAsyncContextManager[Place]]


@asynccontextmanager
async def static(_: Path, workers: Sequence[WorkerSpec]) -> AsyncIterator[Place]:
    yield Place(StaticDiscovery(tuple(workers)), None)


@asynccontextmanager
async def file(folder: Path, workers: Sequence[WorkerSpec]) -> AsyncIterator[Place]:
    path = folder / "workers.yaml"

    def write(workers: Sequence[WorkerSpec]) -> None:
        path.write_text(yaml.safe_dump([{"url": worker.url, "id": worker.id} for worker in workers]))

    write(workers)
    refused: list[str] = []
    yield Place(FileDiscovery(path, parsed_workers, on_refused=refused.extend, interval_s=0.01), write)
    assert [] == refused


@asynccontextmanager
async def kubernetes(folder: Path, workers: Sequence[WorkerSpec]) -> AsyncIterator[Place]:
    """A Service whose endpoints are pods, on a real socket; the API server puts them in the order of their names."""
    async with kubernetes_api() as api:

        def put(workers: Sequence[WorkerSpec]) -> None:
            api.put(
                a_slice("s", *(an_endpoint(host_of(worker.url), worker.id) for worker in workers), ports=[{"port": 1}])
            )

        put(workers)
        made = Discoveries(
            *(ApiAccess(api.url, namespace="default"), ReflectorIntervals(relist_s=5, watch_s=240)),
            parse=parsed_workers,
            clock=asyncio.get_running_loop().time,
            rng=random.Random(1),
        )
        refused: list[str] = []
        yield Place(made.make(WorkerSource("tiny", ServiceSource(name="vllm")), refused.extend), put)
        assert [] == refused


@asynccontextmanager
async def inference_pool(folder: Path, workers: Sequence[WorkerSpec]) -> AsyncIterator[Place]:
    """A pool whose pods are objects of their own: two that change may come as two sets."""
    pods = [a_pod(worker.id, host_of(worker.url)) for worker in workers]
    async with kubernetes_api(a_pool("vllm", 1), *pods) as api:
        made = Discoveries(
            *(ApiAccess(api.url, namespace="default"), ReflectorIntervals(relist_s=5, watch_s=240)),
            parse=parsed_workers,
            clock=asyncio.get_running_loop().time,
            rng=random.Random(1),
        )
        refused: list[str] = []
        yield Place(made.make(WorkerSource("tiny", PoolSource(name="vllm")), refused.extend), None)
        assert [] == refused


@asynccontextmanager
async def dns(folder: Path, workers: Sequence[WorkerSpec]) -> AsyncIterator[Place]:
    """A resolver that knows the workers by their names, as addresses."""
    answers = [*map(host_of_worker, workers)]

    def change(workers: Sequence[WorkerSpec]) -> None:
        answers[:] = map(host_of_worker, workers)

    name = DnsSource(name="vllm", port=1, interval_s=0.01)
    discovery_status = DiscoveryStatus(clock=lambda: 0.0)
    yield Place(
        DnsDiscovery(WorkerSource("tiny", name), name, discovery_status=discovery_status, ask=lambda _: [*answers]),
        change,
    )


def host_of_worker(worker: WorkerSpec) -> str:
    return host_of(worker.url)


ALL: list[Open] = [static, file, kubernetes, inference_pool, dns]
CHANGING: list[Open] = [file, kubernetes, dns]
SORTED: list[Open] = [kubernetes, inference_pool, dns]
"""Those that give workers an order of their own, and names too: no one else does."""


def names(workers: Sequence[WorkerSpec]) -> list[str]:
    return [host_of(worker.url) for worker in workers]


@pytest.mark.parametrize("open_", ALL)
@pytest.mark.parametrize("workers", [(), (A,), (B, A, C)])
async def test_the_whole_set_comes_at_once(open_: Open, workers: Sequence[WorkerSpec], tmp_path: Path) -> None:
    """In the order in which it is given, or always in the same; and also if there is not one."""
    async with open_(tmp_path, workers) as place, aclosing(place.discovery.watch()) as sets:
        found = names(await next_of(sets))
        assert (sorted(names(workers)) if open_ in SORTED else names(workers)) == found


@pytest.mark.parametrize("open_", ALL)
async def test_two_can_watch(open_: Open, tmp_path: Path) -> None:
    """Each gets every set."""
    async with open_(tmp_path, [A]) as place:
        for _ in range(2):
            async with aclosing(place.discovery.watch()) as sets:
                assert ["a"] == names(await next_of(sets))


@pytest.mark.parametrize("open_", CHANGING)
async def test_a_change_brings_the_whole_set(open_: Open, tmp_path: Path) -> None:
    """Those that stay are in it too; those that left are not, and no one says which they are."""
    async with open_(tmp_path, [A]) as place, aclosing(place.discovery.watch()) as sets:
        seen = [names(await next_of(sets))]
        assert place.change is not None
        for workers in ([A, B], [B, C], [], [A]):
            place.change(workers)
            seen.append(names(await next_of(sets)))

    assert [["a"], ["a", "b"], ["b", "c"], [], ["a"]] == seen


@pytest.mark.parametrize("open_", ALL)
async def test_closing_leaves_nothing_behind(open_: Open, tmp_path: Path) -> None:
    """No task, also if somebody waited for the next set."""
    before = asyncio.all_tasks()
    async with open_(tmp_path, [A]) as place, aclosing(place.discovery.watch()) as sets:
        await next_of(sets)
        waiting = asyncio.ensure_future(anext(sets, None))
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.wait([waiting])

    assert before == asyncio.all_tasks()
