"""Work that must not be left in the middle.

A module of its own: compiled by mypyc, what awaits while it handles a cancellation leaves that behind for others.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def carry_to_its_end(work: Coroutine[Any, Any, None], ask_to_end: Callable[[], None]) -> None:
    """Do *work*. A cancellation asks it to end, by *ask_to_end*, and waits until it has."""
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work)
        try:
            await asyncio.shield(working)
        finally:
            ask_to_end()
            await working
