import asyncio

import pytest

from gateway.tenancy.quota.finish_on_cancel import finish_on_cancel


async def test_work_that_is_cancelled_comes_to_its_end_first() -> None:
    """It is asked to end, and what it does then is waited for."""
    asked, done = asyncio.Event(), []

    async def work() -> None:
        await asked.wait()
        await asyncio.sleep(0)
        done.append("written")

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(finish_on_cancel(work(), asked.set))
        await asyncio.sleep(0)
        task.cancel()

    assert task.cancelled()
    assert ["written"] == done


async def test_work_that_fails_says_so() -> None:
    """The exception is a group, as for any awaited task."""

    async def work() -> None:
        raise OSError("the disk is full")

    with pytest.raises(ExceptionGroup) as fault:
        await finish_on_cancel(work(), lambda: None)
    assert "the disk is full" == str(fault.value.exceptions[0])
