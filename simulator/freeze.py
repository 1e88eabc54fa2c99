"""Freezing of a worker, as by SIGSTOP: the operating system still accepts connections and bytes for the worker.

Requests that arrive during the freeze are answered after it. Tokens that the engine generates during the freeze are
sent all at once.
"""

import asyncio
from collections.abc import Callable


class Freeze:
    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._over.set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return not self._over.is_set()

    def begin(self, seconds: float, *, when_over: Callable[[], None]) -> None:
        """Freeze the worker for *seconds*. *when_over* is called at the end, unless `end` or another freeze comes
        first.
        """
        self.end()
        self._over.clear()

        def thaw() -> None:
            self.end()
            when_over()

        self._timer = asyncio.get_running_loop().call_later(seconds, thaw)

    def end(self) -> None:
        """End the freeze of the worker at once. A worker that is not frozen is not affected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._over.set()

    async def wait_over(self) -> None:
        await self._over.wait()
