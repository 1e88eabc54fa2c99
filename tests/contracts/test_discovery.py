"""What the gateway expects of any `Discovery`: the whole set, at once and after each change."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gateway.discovery.discovery import Discovery
from gateway.discovery.file import FileDiscovery
from gateway.discovery.static import StaticDiscovery
from gateway.settings import WorkerSettings

Sets = AsyncGenerator[tuple[WorkerSettings, ...], None]

A, B, C = (WorkerSettings(url=f"http://{letter}:1", id=letter) for letter in "abc")


async def next_of(sets: Sets) -> tuple[WorkerSettings, ...]:
    """The next set, which must not take long."""
    async with asyncio.timeout(5):
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


ALL: list[Open] = [static, file]
CHANGING: list[Open] = [file]


@pytest.mark.parametrize("open_", ALL)
@pytest.mark.parametrize("workers", [(), (A,), (B, A, C)])
async def test_the_whole_set_comes_at_once(open_: Open, workers: Sequence[WorkerSettings], tmp_path: Path) -> None:
    """In the order in which it is given, and also if there is none."""
    async with open_(tmp_path, workers) as place, aclosing(place.discovery.watch()) as sets:
        assert tuple(workers) == await next_of(sets)


@pytest.mark.parametrize("open_", ALL)
async def test_two_can_watch(open_: Open, tmp_path: Path) -> None:
    """Each gets every set."""
    async with open_(tmp_path, [A]) as place:
        for _ in range(2):
            async with aclosing(place.discovery.watch()) as sets:
                assert (A,) == await next_of(sets)


@pytest.mark.parametrize("open_", CHANGING)
async def test_a_change_brings_the_whole_set(open_: Open, tmp_path: Path) -> None:
    """Those that stay are in it too; those that left are not, and nobody says which they are."""
    async with open_(tmp_path, [A]) as place, aclosing(place.discovery.watch()) as sets:
        seen = [await next_of(sets)]
        assert place.change is not None
        for workers in ([A, B], [B, C], [], [A]):
            place.change(workers)
            seen.append(await next_of(sets))

    assert [(A,), (A, B), (B, C), (), (A,)] == seen


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
