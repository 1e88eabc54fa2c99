"""The sweeps over requests that last, of which `gateway.disconnects` wants to know whether their callers have gone.

Apart from it because that is compiled, and a task group, whose end waits, must not be: see deploy/compile_core.py.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it imports this
    from gateway.disconnects import Watch

_log = logging.getLogger(__name__)


async def sweeping(young: "dict[Watch, None]", *, every_s: float) -> None:
    """Until cancelled, give a task to those of *young* that a sweep has seen before; they are young no more."""
    async with asyncio.TaskGroup() as tasks:
        while True:
            await asyncio.sleep(every_s)
            for watch in [watch for watch in young if watch.aged]:
                del young[watch]
                watch.watcher = tasks.create_task(_wait_until_gone(watch))
            for watch in young:
                watch.aged = True


async def _wait_until_gone(watch: "Watch") -> None:
    try:
        while (await watch.receive())["type"] != "http.disconnect":
            pass
    except Exception as error:  # noqa: BLE001  # a connection in disorder must not end the watch over all others
        _log.warning("a connection to a caller failed: %s", type(error).__name__)
    watch.gone = True
    watch.task.cancel()
