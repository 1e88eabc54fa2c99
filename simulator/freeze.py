"""A worker that stands still for a while, as after SIGSTOP: the system still takes connections and bytes for it.

What came meanwhile is answered when it is over, and what the engine did meanwhile arrives at once.
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
        """Stand still from now on; *when_over* is called unless `end` is, or another freeze begins."""
        self.end()
        self._over.clear()

        def thaw() -> None:
            self.end()
            when_over()

        self._timer = asyncio.get_running_loop().call_later(seconds, thaw)

    def end(self) -> None:
        """Go on at once. Of no effect where nothing stands still."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._over.set()

    async def wait_over(self) -> None:
        await self._over.wait()
