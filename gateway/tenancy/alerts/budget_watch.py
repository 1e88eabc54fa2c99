"""Compare budgets with thresholds, and store an alert for each threshold that is reached.

An alert depends only on amounts that are stored, and on what was recorded. So a gateway that is killed between a
threshold and its alert records the alert after its restart, and gateways with the same store record it once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.alerts.alert import Alert, NewAlert, alert_id, alert_time
from gateway.tenancy.alerts.alert_store import AlertStore
from gateway.tenancy.alerts.budget_use import BudgetUse, BudgetUses
from gateway.tenancy.quota.quota import number

KEPT_S: Final = 3 * 86_400.0
"""Seconds after the end of a period for which its alerts are remembered, for gateways that are delayed."""
SLACK: Final = 1e-9
"""Share of a budget that may be missing at a threshold, because sums of fractions are not exact."""

_log = logging.getLogger(__name__)


class BudgetWatch:
    """Watch of all budgets. `added` counts alerts by type, and `crowded` alerts that were not stored."""

    def __init__(
        self,
        store: AlertStore,
        uses: BudgetUses,
        *,
        receivers: Sequence[str],
        thresholds: Sequence[float],
        check_s: float,
        clock: Callable[[], float],
    ) -> None:
        """Create the watch. *clock* returns the time in seconds since 1970."""
        self._store = store
        self._uses = uses
        self._receivers = receivers
        self._thresholds = sorted(thresholds)
        self._check_s = check_s
        self._clock = clock
        self._is_begun = False
        self._known: set[str] = set()
        """Ids of the alerts of the last look that the store has. The look after it need not add them."""
        self.added = 0
        self.crowded = 0

    async def run(self) -> None:
        """Look at all budgets periodically until canceled."""
        while True:
            with suppress(StoreUnavailable):  # the next look finds out
                await self.look()
            await asyncio.sleep(self._check_s)

    async def look(self) -> None:
        """Store an alert for each threshold that a budget has reached, unless it was stored before.

        Raises:
            StoreUnavailable: if the alerts cannot be stored. The next look stores them.
        """
        if not self._is_begun:
            await self._store.begin(self._receivers)
            self._is_begun = True
        known: set[str] = set()
        async for uses in self._uses.read():
            for use in uses:
                for alert in self._reached(use):
                    if alert.alert.id in self._known or await self._add(alert):
                        known.add(alert.alert.id)
        self._known = known

    async def _add(self, alert: NewAlert) -> bool:
        """Add *alert* to the store. Return whether the store has it now."""
        outcome = await self._store.add(alert)
        if outcome == "added":
            self.added += 1
            _log.warning("%s", alert.alert.text)
        elif outcome == "crowded":
            if not self.crowded:
                _log.error("team %s: too many end users have reached budgets for alerts", alert.alert.team)
            self.crowded += 1
        return outcome != "crowded"

    def _reached(self, use: BudgetUse) -> Iterator[NewAlert]:
        """Yield an alert for each threshold that *use* has reached, lowest first."""
        for threshold in self._thresholds:
            if use.share < threshold - SLACK:
                return
            mark = f"{use.id}@{number(use.limit)}@{number(threshold)}"
            alert = Alert(
                id=alert_id(use.team, use.period, mark),
                type="budget.threshold_reached",
                time=alert_time(self._clock()),
                team=use.team,
                scope=use.scope,
                name=use.name,
                model=use.model,
                budget=use.budget,
                period=use.period,
                limit=use.limit,
                used=use.used,
                threshold=threshold,
            )
            yield NewAlert(alert=alert, mark=mark, until=use.ends + KEPT_S)
