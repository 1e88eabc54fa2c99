"""Budgets of teams and keys. Metrics and administrators get the used amounts, and administrators can refund them."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gateway.protocol.errors import InvalidField, StoreUnavailable
from gateway.tenancy.quota.known_budgets import KnownBudget, known_budgets
from gateway.tenancy.quota.limit import Charge, Limit
from gateway.tenancy.quota.plan import Calendar
from gateway.tenancy.quota.quota_store import QuotaStore
from gateway.tenancy.teams.directory import Directory

LOOK_S = 10.0
"""Seconds between two updates of the budget status from the store."""
MAX_KEYS = 1000
"""Maximum number of keys whose budgets appear in metrics, in the order of key ids. Each key causes six samples."""

BudgetMeasure = Literal["tokens_per_day", "usd_per_day", "usd_per_month"]
"""Types of limits that are counted per day or per month."""


class BudgetStatus(NamedTuple):
    """Used amount of one budget, summed over all models."""

    team: str
    key: str | None
    """Id of the key to which the budget applies, or None if the budget applies to the team."""
    period: Literal["day", "month"]
    limit: float
    """Amount of the budget in units, with the raises that apply."""
    used: float
    """Amount of the budget in units that is used or reserved."""
    unit: Literal["usd", "tokens"] = "usd"


@dataclass(frozen=True, slots=True)
class Budget:
    """Identity of a budget, which consists of its team, measure, key and model."""

    team: str
    measure: BudgetMeasure
    key: str | None = None
    model: str | None = None
    """Model to which the budget applies, or None if it applies to all models together."""


class Budgets:
    """Budgets of all teams in *directory*, as counted by *store*."""

    def __init__(
        self, store: QuotaStore, directory: Directory, calendar: Calendar, *, clock: Callable[[], float]
    ) -> None:
        """Create the budgets. *clock* returns the time in seconds since 1970."""
        self._store = store
        self._directory = directory
        self._calendar = calendar
        self._clock = clock
        self.statuses: tuple[BudgetStatus, ...] = ()
        """Status of all budgets, as of the last update."""

    async def run(self) -> None:
        """Update the budget status periodically until canceled. A team has no status while its store is unavailable."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Update the status of all budgets. The store gets one query for each team with a budget."""
        now = self._clock()
        of_teams: dict[str, list[KnownBudget]] = {}
        for budget in self._shown(now):
            of_teams.setdefault(budget.team, []).append(budget)
        found: list[BudgetStatus] = []
        for team, budgets in of_teams.items():
            try:
                used = await self._store.spent(team, [each.nothing(self._calendar, now) for each in budgets])
            except StoreUnavailable:
                continue
            for budget, units in zip(budgets, used, strict=True):
                scoped = budget.scoped
                key = scoped.name if scoped.scope == "key" else None
                period: Literal["day", "month"] = "month" if budget.is_monthly else "day"
                unit: Literal["usd", "tokens"] = "tokens" if scoped.measure == "tokens_per_day" else "usd"
                found.append(BudgetStatus(team, key, period, scoped.limit.amount, units, unit))
        self.statuses = tuple(found)

    async def refund(self, budget: Budget, units: float) -> tuple[float, float]:
        """Reduce the used amount of *budget* in the current period by *units*. Return the used amount before and after.

        Raises:
            InvalidField: if no such budget exists.
            StoreUnavailable: if the store cannot be reached. The refund may not have been made.
        """
        amount = self._amount_of(budget)
        charge = self._charge(budget, amount, units)
        (before,) = await self._store.spent(budget.team, [charge])
        await self._store.refund(budget.team, [charge])
        (after,) = await self._store.spent(budget.team, [charge])
        return before, after

    def _shown(self, now: float) -> Iterator[KnownBudget]:
        """Yield the budgets for all models together, of each team and of the first keys with budgets."""
        keys: set[str] = set()
        for budget in known_budgets(self._directory, now):
            scoped = budget.scoped
            if scoped.model is not None or scoped.scope not in {"team", "key"}:
                continue
            if scoped.scope == "key" and scoped.name not in keys:
                if len(keys) >= MAX_KEYS:
                    continue
                keys.add(scoped.name)
            yield budget

    def _amount_of(self, budget: Budget) -> float:
        team, key = self._directory.teams[budget.team], None
        if budget.key is not None:
            key = self._directory.keys.get(budget.key)
            if key is None or key.team != budget.team:
                raise InvalidField(f"'key' must be the id of a key of the team {budget.team!r}", param="key")
        scope = team if key is None else key
        limits = scope.limits if budget.model is None else scope.model_limits.get(budget.model)
        amount = None if limits is None else getattr(limits, budget.measure)
        if amount is None:
            raise InvalidField(f"There is no limit 'limits.{budget.measure}' to refund", param="measure")
        return float(amount)

    def _charge(self, budget: Budget, amount: float, units: float = 0.0) -> Charge:
        within = f"team:{budget.team}" if budget.key is None else f"key:{budget.key}"
        if budget.model is not None:
            within = f"{within}/model:{budget.model}"
        limit = Limit(f"{within}/{budget.measure}", "period", amount)
        now, calendar = self._clock(), self._calendar
        calendar.update(now)
        if budget.measure == "usd_per_month":
            return Charge(limit, units, calendar.month, calendar.month_ends - now)
        return Charge(limit, units, calendar.day, calendar.day_ends - now)
