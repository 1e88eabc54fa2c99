"""Work that is completed even if its task is canceled.

This module is separate because it must not be compiled. A coroutine compiled by mypyc that awaits while it handles a
cancellation leaves that exception behind for other tasks.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def finish_on_cancel(work: Coroutine[Any, Any, None], ask_to_end: Callable[[], None]) -> None:
    """Run *work*. If it is canceled, call *ask_to_end* and wait until *work* has finished."""
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work)
        try:
            await asyncio.shield(working)
        finally:
            ask_to_end()
            await working
