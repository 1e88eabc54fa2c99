"""Updates of the directory from the store. A change by any gateway takes effect within a second."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Literal

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.unfit import StoreUnfit, UnfitState
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.team_store import TeamStore

_log = logging.getLogger(__name__)

AGAIN_S = 0.2
"""Seconds between two attempts to read an unavailable store."""
GAP_S = 0.02
"""Minimum seconds between two reads caused by unknown keys. However many unknown keys there are, the store gets at most
50 reads per second.
"""

StoreState = Literal["awaited", "ready", "away"] | UnfitState


class Following:
    """Loader that reads the content of *store* into *directory* at startup and after each change."""

    def __init__(
        self,
        store: TeamStore,
        directory: Directory,
        *,
        identify: Callable[[], Awaitable[None]] | None = None,
        on_unfit: Callable[[StoreUnfit], None] | None = None,
        again_s: float = AGAIN_S,
    ) -> None:
        """Create the loader. *identify* is awaited before the first load and repeated until it succeeds. If it is None,
        any store is accepted.

        *on_unfit* is called each time that the store is found to be unfit for use.
        """
        self._on_unfit = on_unfit
        self._store = store
        self._directory = directory
        self._identify = identify
        self._again_s = again_s
        self._fault: Exception | None = None
        self._has_been_heard = False
        self._turn = asyncio.Lock()
        self._asked = 0

    @property
    def is_unavailable(self) -> bool:
        """Whether the last read of the store failed. If so, all known teams and keys stay valid."""
        return self._fault is not None

    @property
    def has_been_heard(self) -> bool:
        """Whether all teams and keys in the store have been read at least once."""
        return self._has_been_heard

    @property
    def state(self) -> StoreState:
        """State of the store as of the last read."""
        if self._fault is None:
            return "ready" if self._has_been_heard else "awaited"
        return _state_of(self._fault)

    @property
    def fault(self) -> str:
        """Reason why the last read failed, without addresses and secrets, or an empty string if it succeeded."""
        if self._fault is None:
            return ""
        return str(self._fault) if isinstance(self._fault, StoreUnavailable) else type(self._fault).__name__

    async def load(self) -> None:
        """Read the store once, before any request is served.

        Raises:
            StoreUnavailable: if the store cannot be reached. `run` tries again later.
        """
        try:
            if self._identify is not None:
                await self._identify()
                self._identify = None
            snapshot = await self._store.load()
            was_emptied = False
            if snapshot.revision < self._directory.revision:
                # Read before a change of our own was written, or the store was emptied: a second read decides.
                snapshot = await self._store.load()
                was_emptied = snapshot.revision < self._directory.revision
        except StoreUnavailable as fault:
            self._lost(fault)
            raise
        self._directory.apply(snapshot, was_emptied=was_emptied)
        self._found()

    async def catch_up(self) -> None:
        """Start a new read of the store and wait for the result. All waiting callers share one read.

        Raises:
            StoreUnavailable: if the store cannot be reached.
        """
        asked = self._asked
        async with self._turn:
            if asked == self._asked:  # otherwise a read that began after this call has finished
                await asyncio.sleep(GAP_S)
                self._asked += 1
                await self.load()

    async def run(self) -> None:
        """Load the content of the store after each change, until canceled."""
        while True:
            try:
                async with aclosing(self._store.changes()) as changes:
                    async for _ in changes:
                        await self.load()
            except Exception as fault:  # noqa: BLE001  # whatever it is, known keys stay valid
                self._lost(fault)
            await asyncio.sleep(self._again_s)

    def _lost(self, fault: Exception) -> None:
        self._directory.fall_behind()
        if self._on_unfit is not None and isinstance(fault, StoreUnfit):
            self._on_unfit(fault)
        former, self._fault = self._fault, fault
        if former is not None and _state_of(former) == _state_of(fault):
            return
        how = "cannot be used" if isinstance(fault, StoreUnfit) else "is unavailable"
        # An unexpected error is logged with its place.
        trace = None if isinstance(fault, StoreUnavailable) else fault
        _log.error("the store of teams and keys %s, but known keys stay valid: %s", how, fault, exc_info=trace)

    def _found(self) -> None:
        self._has_been_heard = True
        if self._fault is not None:
            self._fault = None
            _log.info("the store of teams and keys is available again")


def _state_of(fault: Exception) -> StoreState:
    return fault.state if isinstance(fault, StoreUnfit) else "away"
