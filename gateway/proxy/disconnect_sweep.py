"""Find long-running requests, and watch for disconnects of their callers.

This module is separate from `gateway.proxy.disconnects`, which is compiled. A task group that waits when it ends must
not be compiled (see deploy/compile_core.py).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeVar

_log = logging.getLogger(__name__)


class WatchedRequest(Protocol):
    """Request whose caller can disconnect at any time."""

    receive: Callable[[], Awaitable[MutableMapping[str, Any]]]
    task: "asyncio.Task[Any]"
    aged: bool
    """Whether a disconnect sweep has seen the request."""
    gone: bool
    """Whether the caller has disconnected."""
    watcher: "asyncio.Task[None] | None"


WatchedT = TypeVar("WatchedT", bound=WatchedRequest)


async def sweep(young: "dict[WatchedT, None]", *, every_s: float) -> None:
    """Start a watching task for each request in *young* that an earlier sweep has seen, and remove it from *young*. The
    sweep runs every *every_s* seconds until canceled.
    """
    async with asyncio.TaskGroup() as tasks:
        while True:
            await asyncio.sleep(every_s)
            for watch in [watch for watch in young if watch.aged]:
                del young[watch]
                watch.watcher = tasks.create_task(_wait_until_gone(watch))
            for watch in young:
                watch.aged = True


async def _wait_until_gone(watch: WatchedRequest) -> None:
    try:
        while (await watch.receive())["type"] != "http.disconnect":
            pass
    except Exception as error:  # noqa: BLE001  # a fault of one connection must not end the watch over all others
        _log.warning("a connection to a caller failed: %s", type(error).__name__)
    watch.gone = True
    watch.task.cancel()
