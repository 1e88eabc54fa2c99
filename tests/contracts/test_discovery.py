"""What the gateway expects of any `Discovery`: the whole set, at once and after each change."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gateway.discovery.discoveries import Discoveries
from gateway.discovery.discovery import Discovery
from gateway.discovery.dns import DnsDiscovery
from gateway.discovery.file import FileDiscovery
from gateway.discovery.sightings import Sightings
from gateway.discovery.source import Source
from gateway.discovery.static import StaticDiscovery
from gateway.kv_events.sources import host_of
from gateway.settings import DnsSettings, KubernetesSettings, ServiceSettings, WorkerSettings
from tests.kubernetes_api import a_slice, an_endpoint, kubernetes_api

Sets = AsyncGenerator[tuple[WorkerSettings, ...], None]

A, B, C = (WorkerSettings(url=f"http://{letter}:1", id=letter) for letter in "abc")


async def next_of(sets: Sets) -> tuple[WorkerSettings, ...]:
    """The next set, which must not take long."""
    async with asyncio.timeout(30):
        return await anext(sets)


@dataclass
class Place:
    """Where workers are found, and how to change them; None where nothing can change."""

    discovery: Discovery
    change: Callable[[Sequence[WorkerSettings]], None] | None


Open = Callable[[Path, Sequence[WorkerSettings]], AbstractAsyncContextManager[Place]]


@asynccontextmanager
async def static(_: Path, workers: Sequence[WorkerSettings]) -> AsyncIterator[Place]:
    yield Place(StaticDiscovery(tuple(workers)), None)


@asynccontextmanager
async def file(folder: Path, workers: Sequence[WorkerSettings]) -> AsyncIterator[Place]:
    path = folder / "workers.yaml"

    def write(workers: Sequence[WorkerSettings]) -> None:
        path.write_text(yaml.safe_dump([{"url": worker.url, "id": worker.id} for worker in workers]))

    write(workers)
    refused: list[str] = []
    yield Place(FileDiscovery(path, on_refused=refused.extend, interval_s=0.01), write)
    assert [] == refused


@asynccontextmanager
async def kubernetes(folder: Path, workers: Sequence[WorkerSettings]) -> AsyncIterator[Place]:
    """A Service whose endpoints are pods, on a real socket; the API server puts them in the order of their names."""
    async with kubernetes_api() as api:

        def put(workers: Sequence[WorkerSettings]) -> None:
            api.put(
                a_slice("s", *(an_endpoint(host_of(worker.url), worker.id) for worker in workers), ports=[{"port": 1}])
            )

        put(workers)
        settings = KubernetesSettings(api_url=api.url, namespace="default", relist_s=5)
        made = Discoveries(settings, clock=asyncio.get_running_loop().time, rng=random.Random(1))
        refused: list[str] = []
        yield Place(made.of(Source("tiny", ServiceSettings(name="vllm")), refused.extend), put)
        assert [] == refused


@asynccontextmanager
async def dns(folder: Path, workers: Sequence[WorkerSettings]) -> AsyncIterator[Place]:
    """A resolver that knows the workers by their names, as addresses."""
    answers = [*map(host_of_worker, workers)]

    def change(workers: Sequence[WorkerSettings]) -> None:
        answers[:] = map(host_of_worker, workers)

    name = DnsSettings(name="vllm", port=1, interval_s=0.01)
    sightings = Sightings(clock=lambda: 0.0)
    yield Place(DnsDiscovery(Source("tiny", name), name, sightings=sightings, ask=lambda _: [*answers]), change)


def host_of_worker(worker: WorkerSettings) -> str:
    return host_of(worker.url)


ALL: list[Open] = [static, file, kubernetes, dns]
CHANGING: list[Open] = [file, kubernetes, dns]
SORTED: list[Open] = [kubernetes, dns]
"""Those that give workers an order of their own, and names too: nobody else does."""


def names(workers: Sequence[WorkerSettings]) -> list[str]:
    return [host_of(worker.url) for worker in workers]


@pytest.mark.parametrize("open_", ALL)
@pytest.mark.parametrize("workers", [(), (A,), (B, A, C)])
async def test_the_whole_set_comes_at_once(open_: Open, workers: Sequence[WorkerSettings], tmp_path: Path) -> None:
    """In the order in which it is given, or always in the same; and also if there is none."""
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
    """Those that stay are in it too; those that left are not, and nobody says which they are."""
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
