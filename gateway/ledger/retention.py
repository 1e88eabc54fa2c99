"""Lets go of what the ledger no longer has to keep."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import date

from gateway.errors import StoreAway
from gateway.ledger.usage_store import UsageStore

_log = logging.getLogger(__name__)

INTERVAL_S = 3600.0
PAUSE_S = 0.05
"""Between two pieces of a long removal: bookings come in between."""


class Retention:
    """Records and sums of *store* are kept for so many days, that of *today* included; sums take far less room.

    Replicas may all do it, for it makes no difference who does.
    """

    def __init__(
        self,
        store: UsageStore,
        *,
        record_days: int,
        sum_days: int,
        today: Callable[[], str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._record_days = record_days
        self._sum_days = sum_days
        self._today = today
        self._sleep = sleep

    async def run(self) -> None:
        """Forget at once and then every hour, until cancelled. A store that is away is asked again an hour later."""
        while True:
            try:
                await self.forget()
            except StoreAway as fault:
                _log.warning("the ledger keeps what is out of date: %s", fault)
            await self._sleep(INTERVAL_S)

    async def forget(self) -> None:
        """All that is too old today.

        Raises:
            StoreAway: it cannot be reached; something may have been removed.
        """
        records_before, sums_before = self._first_of(self._record_days), self._first_of(self._sum_days)
        while await self._store.forget(records_before=records_before, sums_before=sums_before):
            await self._sleep(PAUSE_S)

    def _first_of(self, days: int) -> str:
        """The first of the *days* that end today."""
        return date.fromordinal(max(1, date.fromisoformat(self._today()).toordinal() - days + 1)).isoformat()
