"""Notices callers that went away, so that workers stop generating for nobody.

ASGI tells of it only to whoever awaits `receive`, which would cost a task for every request. Most are over before it
matters: only those that last longer than a sweep or two get a task.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

_log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Watch:
    """One request whose caller might go away. ``gone`` tells a cancellation that means this from any other."""

    __slots__ = ("aged", "gone", "receive", "task", "watcher")

    def __init__(self, receive: Receive, task: "asyncio.Task[Any]") -> None:
        self.receive = receive
        self.task = task
        self.aged = False
        self.gone = False
        self.watcher: asyncio.Task[None] | None = None


class Disconnects:
    """Cancels the task of a request whose caller has gone, two sweeps after its begin at the earliest."""

    def __init__(self, *, sweep_s: float = 0.2) -> None:
        self._sweep_s = sweep_s
        self._young: dict[Watch, None] = {}

    def begin(self, receive: Receive) -> Watch:
        """Watch for the current task. The body must have been read: from here on *receive* is the watcher's."""
        task = asyncio.current_task()
        assert task is not None, "requests are served in tasks"
        watch = Watch(receive, task)
        self._young[watch] = None
        return watch

    def end(self, watch: Watch) -> None:
        self._young.pop(watch, None)
        if watch.watcher is not None:
            watch.watcher.cancel()

    async def run(self) -> None:
        """Sweep until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(self._sweep_s)
                for watch in [watch for watch in self._young if watch.aged]:
                    del self._young[watch]
                    watch.watcher = tasks.create_task(_wait_until_gone(watch))
                for watch in self._young:
                    watch.aged = True


async def _wait_until_gone(watch: Watch) -> None:
    try:
        while (await watch.receive())["type"] != "http.disconnect":
            pass
    except Exception as error:  # noqa: BLE001  # a connection in disorder must not end the watch over all others
        _log.warning("a connection to a caller failed: %s", type(error).__name__)
    watch.gone = True
    watch.task.cancel()
