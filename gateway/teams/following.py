"""Keeps the directory in step with the store, so that what is changed anywhere counts here within a second."""

import asyncio
import logging
from contextlib import aclosing

from gateway.errors import StoreAway
from gateway.teams.directory import Directory
from gateway.teams.team_store import TeamStore

_log = logging.getLogger(__name__)

AGAIN_S = 0.2
"""Between two attempts to hear a store that is away."""
GAP_S = 0.02
"""Between two times that strangers make it ask: however many there are, they cost the store 50 questions a second."""


class Following:
    """Loads what *store* keeps into *directory*, at once and after each change."""

    def __init__(self, store: TeamStore, directory: Directory, *, again_s: float = AGAIN_S) -> None:
        self._store = store
        self._directory = directory
        self._again_s = again_s
        self._is_away = False
        self._turn = asyncio.Lock()
        self._asked = 0

    @property
    def is_away(self) -> bool:
        """Whether the store could not be reached when it was asked last. What is known of it counts meanwhile."""
        return self._is_away

    async def load(self) -> None:
        """Once, before requests are served.

        Raises:
            StoreAway: it cannot be reached; `run` goes on trying.
        """
        try:
            snapshot = await self._store.load()
            was_emptied = False
            if snapshot.revision < self._directory.revision:
                # Asked before a change of our own was done, or emptied: the second answer tells which.
                snapshot = await self._store.load()
                was_emptied = snapshot.revision < self._directory.revision
        except StoreAway as fault:
            self._lost(fault)
            raise
        self._directory.take(snapshot, was_emptied=was_emptied)
        self._found()

    async def catch_up(self) -> None:
        """Hear the store once more, from this moment on; all who wait share one answer.

        Raises:
            StoreAway: it cannot be reached.
        """
        asked = self._asked
        async with self._turn:
            if asked == self._asked:  # else somebody's question came after ours, and has been answered
                await asyncio.sleep(GAP_S)
                self._asked += 1
                await self.load()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                async with aclosing(self._store.changes()) as changes:
                    async for _ in changes:
                        await self.load()
            except Exception as fault:  # noqa: BLE001  # whatever it is, known keys go on counting
                self._lost(fault)
            await asyncio.sleep(self._again_s)

    def _lost(self, fault: Exception) -> None:
        self._directory.fall_behind()
        if not self._is_away:
            self._is_away = True
            # What nobody foresaw is told with its place.
            trace = None if isinstance(fault, StoreAway) else fault
            _log.error("the store of teams and keys is away, known keys go on counting: %s", fault, exc_info=trace)

    def _found(self) -> None:
        if self._is_away:
            self._is_away = False
            _log.info("the store of teams and keys is there again")
