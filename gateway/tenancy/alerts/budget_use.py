"""Used amounts of all budgets: those of teams, projects, keys and end users, and soft budgets."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, NamedTuple

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.ledger.usage_store import OTHER_USERS, UsageStore
from gateway.tenancy.quota.known_budgets import BUDGETS, KnownBudget, known_budgets, user_budgets
from gateway.tenancy.quota.plan import Calendar
from gateway.tenancy.quota.quota_store import QuotaStore
from gateway.tenancy.quota.scope import Scope
from gateway.tenancy.quota.soft_budgets import SoftBudgets
from gateway.tenancy.quota.spent_budgets import SpentBudgets
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.team import Team

MAX_USERS: Final = 1000
"""Maximum number of end users of a team whose budgets are watched: those with the highest cost of the month."""
SPENT_SHARE: Final = 0.95
"""Used share of a budget above which a refused request means that the budget is spent. A request is refused if the rest
of the budget does not cover it, so budgets are seldom used completely.
"""


class BudgetUse(NamedTuple):
    """Use of one budget in its current period."""

    id: str
    """Id of the budget, which is unique within its team."""
    team: str
    scope: Scope
    name: str
    model: str | None
    budget: str
    period: str
    ends: float
    """End of the period in seconds since 1970."""
    limit: float
    used: float
    is_spent: bool = False
    """Whether the budget refused a request, and so little of it is left that it counts as used."""

    @property
    def share(self) -> float:
        share = self.used / self.limit
        return max(share, 1.0) if self.is_spent else share


class BudgetUses:
    """Reader of the used amounts of all budgets in *directory*."""

    def __init__(
        self,
        store: QuotaStore,
        usage: UsageStore,
        directory: Directory,
        calendar: Calendar,
        *,
        soft_budgets: SoftBudgets,
        spent: SpentBudgets,
        clock: Callable[[], float],
    ) -> None:
        """Create the reader. *clock* returns the time in seconds since 1970."""
        self._store = store
        self._usage = usage
        self._directory = directory
        self._calendar = calendar
        self._soft_budgets = soft_budgets
        self._spent = spent
        self._clock = clock

    async def read(self) -> AsyncIterator[list[BudgetUse]]:
        """Yield the uses of the budgets of each team. A team whose store is unavailable is left out."""
        of_teams: dict[str, list[KnownBudget]] = {}
        for budget in known_budgets(self._directory, self._clock()):
            of_teams.setdefault(budget.team, []).append(budget)
        for team in list(self._directory.teams.values()):
            try:
                users = await self._user_budgets(team)
                uses = await self._uses(team.name, [*of_teams.get(team.name, ()), *users])
            except StoreUnavailable:
                continue
            yield [*uses, *self._soft_uses(team.name)]

    async def _user_budgets(self, team: Team) -> Iterable[KnownBudget]:
        if not any(getattr(team.user_limits, measure) is not None for measure in BUDGETS):
            return ()
        now = self._clock()
        self._calendar.update(now)
        sums = await self._usage.users(team.name, self._calendar.month, most=MAX_USERS)
        names = [name for each in sums if (name := each.group["user"]) not in {None, OTHER_USERS}]
        return user_budgets(team, ["", *(name for name in names if name)], now)

    async def _uses(self, team: str, budgets: list[KnownBudget]) -> list[BudgetUse]:
        if not budgets:
            return []
        now = self._clock()
        charges = [each.nothing(self._calendar, now) for each in budgets]
        used = await self._store.spent(team, charges)
        refusing = self._spent.take(team)
        found = []
        for budget, charge, units in zip(budgets, charges, used, strict=True):
            scoped, limit = budget.scoped, budget.scoped.limit
            is_spent = (limit.id, charge.period) in refusing and units >= SPENT_SHARE * limit.amount
            owner = (scoped.scope, scoped.name, scoped.model)
            ends = now + charge.period_left_s
            period = (scoped.measure, charge.period, ends)
            found.append(BudgetUse(limit.id, team, *owner, *period, limit.amount, units, is_spent))
        return found

    def _soft_uses(self, team: str) -> Iterable[BudgetUse]:
        for budget, period, ends, units in self._soft_budgets.uses.get(team, ()):
            scope: Scope = "team" if budget.key is None else "key"
            owner = (scope, team if budget.key is None else budget.key, budget.model)
            id_ = f"{budget.text}/{budget.measure}"
            yield BudgetUse(id_, team, *owner, budget.measure, period, ends, budget.amount, units)
