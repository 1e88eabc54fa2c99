"""Compare what teams spend today with what they usually spend per day, and store an alert for unusual amounts.

The usual amount of a team is its mean cost per day, in the ledger, over the days before today: at most `history_days`,
and not before the first day with requests of the team. Days without requests count as days without cost. The amount of
today is compared with a whole usual day, not with a part of one, because the requests of a team are not spread evenly
over the day. So an alert means that today is unusual already, whatever the rest of the day brings.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.alerts.alert import Alert, NewAlert, alert_id, alert_time
from gateway.tenancy.alerts.alert_store import AlertStore
from gateway.tenancy.alerts.budget_watch import KEPT_S
from gateway.tenancy.ledger.usage_store import Period, SumQuery, UsageStore
from gateway.tenancy.quota.plan import Calendar
from gateway.tenancy.quota.quota import number

BUDGET: Final = "usual_usd_per_day"
"""Value of `Alert.budget` in alerts about unusual spend."""
HISTORY_S: Final = 600.0
"""Seconds for which the sums of earlier days are cached. Only delayed ledger entries change these sums."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpendRule:
    """Definition of an unusual amount."""

    factor: float
    """Multiple of the usual amount per day that is unusual."""
    min_usd: float
    """Amount in US dollars per day below which nothing is unusual."""
    min_days: int
    """Number of days since the first request of a team before which nothing is unusual."""
    history_days: int
    """Maximum number of days whose mean is the usual amount."""

    def usual(self, spent: Mapping[str, float], today: str) -> float | None:
        """Return the usual amount per day for a team that *spent* amounts by day before *today*, such as
        ``2026-11-21``. Return None if the team is too new.
        """
        days = 0 if not spent else (date.fromisoformat(today) - date.fromisoformat(min(spent))).days
        return sum(spent.values()) / days if days >= self.min_days else None

    def is_unusual(self, spent_usd: float, usual_usd: float) -> bool:
        """Return whether the amount of a day is unusual."""
        return spent_usd >= self.min_usd and spent_usd >= self.factor * usual_usd


class SpendWatch:
    """Watch of the spend of all teams in the ledger. `added` counts alerts."""

    def __init__(
        self,
        store: AlertStore,
        usage: UsageStore,
        calendar: Calendar,
        rule: SpendRule,
        *,
        receivers: Sequence[str],
        check_s: float,
        clock: Callable[[], float],
    ) -> None:
        """Create the watch. *clock* returns the time in seconds since 1970."""
        self._store = store
        self._usage = usage
        self._calendar = calendar
        self._rule = rule
        self._receivers = receivers
        self._check_s = check_s
        self._clock = clock
        self._is_begun = False
        self._usual: dict[str, float] = {}
        """Usual amounts per day in US dollars, by team, without teams that are too new."""
        self._usual_of: tuple[str, float] | None = None
        """Day and time of the last computation of the usual amounts, or None."""
        self._known: set[str] = set()
        """Ids of the alerts of today that the store has."""
        self.added = 0

    async def run(self) -> None:
        """Look at all teams periodically until canceled."""
        while True:
            with suppress(StoreUnavailable):  # the next look finds out
                await self.look()
            await asyncio.sleep(self._check_s)

    async def look(self) -> None:
        """Store an alert for each team that spends an unusual amount today, unless it was stored before.

        Raises:
            StoreUnavailable: if the ledger cannot be read, or the alerts cannot be stored. The next look does it.
        """
        if not self._is_begun:
            await self._store.begin(self._receivers)
            self._is_begun = True
        now, calendar = self._clock(), self._calendar
        calendar.update(now)
        today, ends = calendar.day, calendar.day_ends
        await self._learn(today, now)
        known: set[str] = set()
        for team, spent in (await self._spent(today, today)).items():
            usual = self._usual.get(team)
            if usual is None or not self._rule.is_unusual(spent[today], usual):
                continue
            alert = self._alert(team, today, spent[today], usual, ends=ends)
            if alert.alert.id not in self._known:
                await self._add(alert)
            known.add(alert.alert.id)
        self._known = known

    async def _learn(self, today: str, now: float) -> None:
        """Compute the usual amounts, if those in memory are of another day or old."""
        if self._usual_of is not None and self._usual_of[0] == today and 0.0 <= now - self._usual_of[1] < HISTORY_S:
            return
        day = date.fromisoformat(today)
        first, last = (day - timedelta(days=days) for days in (self._rule.history_days, 1))
        amounts = await self._spent(first.isoformat(), last.isoformat())
        found = {team: self._rule.usual(spent, today) for team, spent in amounts.items()}
        self._usual = {team: usual for team, usual in found.items() if usual is not None}
        self._usual_of = (today, now)

    async def _spent(self, first_day: str, last_day: str) -> dict[str, dict[str, float]]:
        """Return the cost in US dollars by team and day, for the days with requests. Requests without a team have none.

        Raises:
            StoreUnavailable: if the ledger cannot be read.
        """
        spent: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for each in await self._usage.sums(SumQuery(period=Period(first_day, last_day), by=("team", "day"))):
            team, day = each.group["team"], each.group["day"]
            if team and day:
                spent[team][day] = each.cost_usd
        return spent

    async def _add(self, alert: NewAlert) -> None:
        if await self._store.add(alert) == "added":
            self.added += 1
            _log.warning("%s", alert.alert.text)

    def _alert(self, team: str, today: str, spent: float, usual: float, *, ends: float) -> NewAlert:
        factor = self._rule.factor
        mark = f"{BUDGET}@{number(factor)}"  # without amounts, so that a team has one alert per day
        alert = Alert(
            id=alert_id(team, today, mark),
            type="spend.anomaly",
            time=alert_time(self._clock()),
            team=team,
            scope="team",
            name=team,
            model=None,
            budget=BUDGET,
            period=today,
            limit=usual,
            used=spent,
            threshold=factor,
        )
        return NewAlert(alert=alert, mark=mark, until=ends + KEPT_S)
