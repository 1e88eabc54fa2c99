"""Division of the event loop's time between KV events and requests."""

import asyncio
from collections.abc import Callable

SLICE_S = 0.0005
"""Maximum seconds that all event streams together use between two iterations of the event loop. A request waits no
longer than this, unless a single batch takes longer. Later iterations then get less.
"""


class LoopShare:
    """Scheduler that gives each event stream a slice of time after another. All streams share one instance."""

    def __init__(self, clock: Callable[[], float], *, slice_s: float = SLICE_S) -> None:
        self._clock = clock
        self._slice_s = slice_s
        self._left_s = slice_s
        self._turn = asyncio.Lock()
        self.longest_s = 0.0
        """Maximum time in seconds for which events were processed without interruption so far."""

    async def drain(self, work: Callable[[], bool]) -> None:
        """Call *work* repeatedly until it returns False, which means that no work is left."""
        goes_on = True
        while goes_on:
            # Fair: who waits for its turn comes before who has just had one.
            async with self._turn:
                while self._left_s <= 0:
                    await asyncio.sleep(0)
                    self._left_s += self._slice_s
                goes_on = self._slice(work)

    def _slice(self, work: Callable[[], bool]) -> bool:
        """Call *work* until the time slice is used up. Return False if no work was left before that."""
        began = self._clock()
        spent_s = 0.0
        goes_on = True
        while goes_on and spent_s < self._left_s:
            goes_on = work()
            spent_s = self._clock() - began
        self._left_s -= spent_s
        self.longest_s = max(self.longest_s, spent_s)
        return goes_on
