"""Removal of old records and sums from the ledger."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import date

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.ledger.usage_store import UsageStore

_log = logging.getLogger(__name__)

INTERVAL_S = 3600.0
PAUSE_S = 0.05
"""Pause in seconds between two steps of a long removal, in which new entries can be written."""


class Retention:
    """Removal of ledger records and sums from *store* after a configured number of days, counting *today*. Sums take
    much less space than records.

    All replicas may run it at the same time.
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
        """Delete expired entries now and then every hour, until canceled. If the store is unavailable, try again an
        hour later.
        """
        while True:
            try:
                await self.forget()
            except StoreUnavailable as fault:
                _log.warning("expired ledger entries could not be deleted: %s", fault)
            await self._sleep(INTERVAL_S)

    async def forget(self) -> None:
        """Delete all entries that have expired today.

        Raises:
            StoreUnavailable: if the store cannot be reached. Some entries may already be deleted.
        """
        records_before, sums_before = self._first_of(self._record_days), self._first_of(self._sum_days)
        while await self._store.forget(records_before=records_before, sums_before=sums_before):
            await self._sleep(PAUSE_S)

    def _first_of(self, days: int) -> str:
        """Return the first day of the period of *days* days that ends today."""
        return date.fromordinal(max(1, date.fromisoformat(self._today()).toordinal() - days + 1)).isoformat()
