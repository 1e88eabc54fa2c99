"""Noticing callers that went away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.proxy.disconnects import Disconnects, Watch
from tests.gateway.asgi import Caller

SWEEP_S = 0.01


@asynccontextmanager
async def sweeping(disconnects: Disconnects) -> AsyncIterator[asyncio.Task[None]]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(disconnects.run())
        yield task
        task.cancel()


@pytest.fixture
def disconnects() -> Disconnects:
    return Disconnects(sweep_s=SWEEP_S)


async def serve(disconnects: Disconnects, caller: Caller, *, watches: list[Watch]) -> None:
    """Serve a request that lasts until it is cancelled."""
    await caller.receive()  # the body
    watch = disconnects.begin(caller.receive)
    watches.append(watch)
    try:
        await asyncio.Event().wait()
    finally:
        disconnects.end(watch)


async def test_a_request_is_cancelled_when_its_caller_has_gone(disconnects: Disconnects) -> None:
    """The watch records the reason."""
    caller, watches = Caller(), list[Watch]()
    async with sweeping(disconnects), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(serve(disconnects, caller, watches=watches))
        await caller.watched.wait()
        assert not task.cancelling()
        caller.leave()

    assert task.cancelled()
    assert watches[0].gone


async def test_a_caller_that_had_gone_before_is_noticed_too(disconnects: Disconnects) -> None:
    """It takes at most two sweeps."""
    caller, watches = Caller(), list[Watch]()
    caller.leave()
    async with sweeping(disconnects), asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(serve(disconnects, caller, watches=watches))

    assert task.cancelled()


async def test_only_those_whose_caller_has_gone_are_cancelled(disconnects: Disconnects) -> None:
    """The others go on; another cancellation is not taken for a disconnect."""
    callers, watches = [Caller(), Caller()], list[Watch]()
    async with sweeping(disconnects), asyncio.TaskGroup() as tasks:
        left, stayed = [tasks.create_task(serve(disconnects, caller, watches=watches)) for caller in callers]
        for caller in callers:
            await caller.watched.wait()
        callers[0].leave()
        await asyncio.wait([left])
        assert not stayed.done()
        stayed.cancel()

    assert [True, False] == [watch.gone for watch in watches]


async def test_a_short_request_never_gets_a_task(disconnects: Disconnects) -> None:
    """It ends before the second sweep, and its `receive` is never called."""
    caller = Caller()
    async with sweeping(disconnects):
        for _ in range(100):
            watch = disconnects.begin(caller.receive)
            await asyncio.sleep(0)
            disconnects.end(watch)
            assert watch.watcher is None

    assert not caller.watched.is_set()


async def test_a_watch_that_ended_leaves_nothing_behind(disconnects: Disconnects) -> None:
    """Neither in the list nor as a task; a later disconnect cancels nothing."""
    before = asyncio.all_tasks()
    caller, own = Caller(), asyncio.current_task()
    assert own is not None
    async with sweeping(disconnects) as sweeper:
        await caller.receive()
        old = disconnects.begin(caller.receive)
        await caller.watched.wait()
        young = disconnects.begin(caller.receive)
        for watch in (old, young):
            disconnects.end(watch)
            disconnects.end(watch)
        caller.leave()
        await asyncio.sleep(3 * SWEEP_S)

        assert {} == disconnects._young
        assert before | {sweeper} == asyncio.all_tasks()
        assert not old.gone
        assert 0 == own.cancelling()
