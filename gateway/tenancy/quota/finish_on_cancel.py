"""Work that is finished when its task is cancelled.

A separate module that is not compiled: a coroutine compiled by mypyc that awaits while it handles a cancellation leaves
that exception behind for other tasks.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def finish_on_cancel(work: Coroutine[Any, Any, None], ask_to_end: Callable[[], None]) -> None:
    """Do *work*. On cancellation, call *ask_to_end* and wait until the work has ended."""
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work)
        try:
            await asyncio.shield(working)
        finally:
            ask_to_end()
            await working
