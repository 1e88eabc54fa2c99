"""Shares the event loop between the events of all engines and the requests."""

import asyncio
from collections.abc import Callable

SLICE_S = 0.001
"""Time for events between two turns of the loop, for all streams together: a request waits for them this long at most,
unless one batch takes longer. Such a batch is paid back in turns of the loop."""


class LoopShare:
    """Lets streams work one after the other, a slice at a time. One for all streams of a loop."""

    def __init__(self, clock: Callable[[], float], *, slice_s: float = SLICE_S) -> None:
        self._clock = clock
        self._slice_s = slice_s
        self._left_s = slice_s
        self._turn = asyncio.Lock()
        self.longest_s = 0.0
        """Longest time spent at a stretch."""

    async def drain(self, work: Callable[[], bool]) -> None:
        """Call *work* until it returns that none is left."""
        goes_on = True
        while goes_on:
            # Fair: who waits for its turn comes before who has just had one.
            async with self._turn:
                while self._left_s <= 0:
                    await asyncio.sleep(0)
                    self._left_s += self._slice_s
                goes_on = self._slice(work)

    def _slice(self, work: Callable[[], bool]) -> bool:
        """Work for the time that is left; return False if there was less to do."""
        began = self._clock()
        spent_s = 0.0
        goes_on = True
        while goes_on and spent_s < self._left_s:
            goes_on = work()
            spent_s = self._clock() - began
        self._left_s -= spent_s
        self.longest_s = max(self.longest_s, spent_s)
        return goes_on
