"""Notices callers that went away, so that workers stop generating for nobody.

ASGI tells of it only to whoever awaits `receive`, which would cost a task for every request. Most are over before it
matters: only those that last longer than a sweep or two get a task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

from gateway.sweeps import sweeping

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
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, receive: Receive) -> Watch:
        """Watch for the current task. The body must have been read: from here on *receive* is the watcher's."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(self._loop)  # to find the loop, Python 3.11 asks the kernel for the process's id
        assert task is not None, "requests are served in tasks"
        watch = Watch(receive, task)
        self._young[watch] = None
        return watch

    def end(self, watch: Watch) -> None:
        """The same *watch* may be ended again."""
        if watch in self._young:
            del self._young[watch]
        elif watch.watcher is not None:
            watch.watcher.cancel()

    def run(self) -> Coroutine[Any, Any, None]:
        """Sweep until cancelled."""
        return sweeping(self._young, every_s=self._sweep_s)
