"""Cancel requests whose callers have disconnected, so that workers stop generating.

ASGI reports a disconnect only to a task that awaits `receive`. A watching task for every request would cost too much,
so only requests that outlast one or two sweeps get such a task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

from gateway.proxy.disconnect_sweep import sweep

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Watch:
    """Request whose caller can disconnect. The attribute `gone` distinguishes a cancellation after a disconnect from
    others.
    """

    __slots__ = ("aged", "gone", "receive", "task", "watcher")

    def __init__(self, receive: Receive, task: "asyncio.Task[Any]") -> None:
        self.receive = receive
        self.task = task
        self.aged = False
        self.gone = False
        self.watcher: asyncio.Task[None] | None = None

    def cut(self) -> None:
        """Cancel the request as if its caller had disconnected."""
        self.gone = True
        self.task.cancel()


class Disconnects:
    """Watcher that cancels the task of a request whose caller has disconnected, at the earliest two sweeps after the
    request begins.
    """

    def __init__(self, *, sweep_s: float = 0.2) -> None:
        self._sweep_s = sweep_s
        self._young: dict[Watch, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, receive: Receive) -> Watch:
        """Watch the request of the current task. The request body must have been read before, because from now on only
        the watcher calls *receive*.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(self._loop)  # without it, Python 3.11 asks the kernel for the process id
        assert task is not None, "no task serves the request"
        watch = Watch(receive, task)
        self._young[watch] = None
        return watch

    def end(self, watch: Watch) -> None:
        """Stop watching a request. A second call with the same *watch* does nothing."""
        if watch in self._young:
            del self._young[watch]
        elif watch.watcher is not None:
            watch.watcher.cancel()

    def run(self) -> Coroutine[Any, Any, None]:
        """Return a coroutine that checks periodically for disconnected callers until canceled."""
        return sweep(self._young, every_s=self._sweep_s)
