"""Sweeping over requests that last."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.proxy.disconnect_sweep import sweep
from gateway.proxy.disconnects import Watch
from tests.gateway.asgi import Caller, Message

Young = dict[Watch, None]


@asynccontextmanager
async def swept(young: Young) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(sweep(young, every_s=0.01))
        yield
        task.cancel()


def watched(caller: Caller, young: Young) -> Watch:
    """Watch the current task for *caller*."""
    task = asyncio.current_task()
    assert task is not None
    watch = Watch(caller.receive, task)
    young[watch] = None
    return watch


async def serve(caller: Caller, young: Young) -> None:
    """Serve a request that lasts until it is cancelled."""
    await caller.receive()  # the body
    watched(caller, young)
    await asyncio.Event().wait()


async def test_other_messages_are_skipped() -> None:
    """A server may end a body with an empty message."""
    caller, young = Caller(b"{}", b"", b""), Young()
    async with swept(young), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(serve(caller, young))
        await caller.watched.wait()
        assert not task.cancelling()
        caller.leave()

    assert task.cancelled()


async def test_only_the_second_sweep_makes_a_task() -> None:
    """The first sweep only marks the request, which may have just begun."""
    caller, young = Caller(), Young()
    await caller.receive()
    async with swept(young):
        watch = watched(caller, young)
        while not watch.aged and watch.watcher is None:
            await asyncio.sleep(0)
        assert watch.watcher is None
        assert {watch: None} == young
        await caller.watched.wait()
        assert {} == young


async def test_a_faulty_connection_ends_its_own_request_only(caplog: pytest.LogCaptureFixture) -> None:
    """It counts as a disconnect; the others stay watched."""

    class Broken(Caller):
        async def receive(self) -> Message:
            if not self._requests:
                raise OSError("with the prompt in its text")
            return await super().receive()

    broken, sound, young = Broken(), Caller(), Young()
    async with swept(young), asyncio.TaskGroup() as tasks:
        first = tasks.create_task(serve(broken, young))
        await asyncio.wait([first])
        second = tasks.create_task(serve(sound, young))
        await sound.watched.wait()
        sound.leave()

    assert first.cancelled()
    assert second.cancelled()
    assert ["a connection to a caller failed: OSError"] == [record.getMessage() for record in caplog.records]


async def test_ending_the_sweep_ends_its_tasks() -> None:
    """At shutdown no task is left, while requests may go on."""
    caller, young, before = Caller(), Young(), asyncio.all_tasks()
    await caller.receive()
    async with swept(young):
        watched(caller, young)
        await caller.watched.wait()

    assert before == asyncio.all_tasks()
