"""Soft budgets, which warn but never refuse. The used amounts are measured, and a header reports exceeded budgets.

The ledger is compared with the budgets in the background. As long as no budget is exceeded, soft budgets cost requests
nothing. A warning starts up to `LOOK_S` seconds after the booking of the request that exceeded the budget.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple, get_args

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.ledger.usage_store import Filter, Period, SumQuery, UsageStore, UsageSum
from gateway.tenancy.quota.plan import Calendar
from gateway.tenancy.quota.quota import number
from gateway.tenancy.quota.rate_headers import Headers
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.limits import Limits, SoftMeasure

LOOK_S = 10.0
"""Seconds between two comparisons of the soft budgets with the ledger."""
EARLIER_S = 600.0
"""Seconds for which the sums of earlier days are cached. Only delayed ledger entries change these sums."""
SOFT_MEASURES: tuple[SoftMeasure, ...] = get_args(SoftMeasure)
HEADER = b"x-warmgate-budget-warning"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SoftBudget:
    """Soft budget of a team, of a key, or of one model within a team or key."""

    team: str
    key: str | None
    """Id of the key to which the budget applies, or None if it applies to all keys of the team."""
    model: str | None
    """Model to which the budget applies, or None if it applies to all models together."""
    measure: SoftMeasure
    amount: float

    @property
    def label(self) -> str:
        """Label of the budget for the header and metrics, such as ``team/usd_per_month`` or
        ``key/model/tokens_per_day``, without names.
        """
        scope = "team" if self.key is None else "key"
        measure = self.measure.removeprefix("soft_")
        return f"{scope}/{measure}" if self.model is None else f"{scope}/model/{measure}"

    @property
    def text(self) -> str:
        """Description of the budget for logs, such as ``team blue, key ci, model tiny``."""
        key = "" if self.key is None else f", key {self.key}"
        return f"team {self.team}{key}" + ("" if self.model is None else f", model {self.model}")


class SoftBudgetStatus(NamedTuple):
    """Status of the most used budget among the budgets of one team with the same label."""

    team: str
    label: str
    used_ratio: float
    """Used share of the budget. If it is above 1, the budget is exceeded."""


class SoftBudgetUse(NamedTuple):
    """Use of one soft budget in its current period."""

    budget: SoftBudget
    period: str
    ends: float
    """End of the period in seconds since 1970."""
    used: float


class _Earlier(NamedTuple):
    """Usage of a team in the current month before the day *day*."""

    day: str
    read_at: float
    sums: list[UsageSum]


class SoftBudgets:
    """Soft budgets of all teams in *directory*, with their usage according to the ledger."""

    def __init__(
        self,
        usage: UsageStore,
        directory: Directory,
        calendar: Calendar,
        *,
        cached_weight: float,
        clock: Callable[[], float],
    ) -> None:
        """Create the soft budgets. *cached_weight* is the weight of cached tokens in token limits. *clock* returns the
        time in seconds since 1970.
        """
        self._usage = usage
        self._directory = directory
        self._calendar = calendar
        self._cached_weight = cached_weight
        self._clock = clock
        self._earlier: dict[str, _Earlier] = {}
        self._logged: set[tuple[str, SoftMeasure, str]] = set()
        self.passed: dict[str, tuple[SoftBudget, ...]] = {}
        """Budgets that were exceeded at the last comparison, by team."""
        self.statuses: tuple[SoftBudgetStatus, ...] = ()
        """Status of all soft budgets at the last comparison."""
        self.uses: dict[str, list[SoftBudgetUse]] = {}
        """Use of all soft budgets at the last comparison, by team."""

    async def run(self) -> None:
        """Compare the budgets with the ledger periodically until canceled. While its ledger cannot be read, a team has
        no status.
        """
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    def headers_of(self, caller: Caller, model: str) -> Headers:
        """Return the warning headers for answers of *model* to *caller*, which are empty if no budget is exceeded."""
        labels = [
            each.label
            for each in self.passed.get(caller.team_name, ())
            if each.key in {None, caller.key_id} and each.model in {None, model}
        ]
        return ((HEADER, ", ".join(labels).encode("ascii")),) if labels else ()

    async def look(self) -> None:
        """Read the usage of each team with a soft budget from the ledger, and log newly exceeded budgets."""
        now = self._clock()
        self._calendar.update(now)
        of_teams: dict[str, list[SoftBudget]] = {}
        for budget in self._budgets():
            of_teams.setdefault(budget.team, []).append(budget)
        self._earlier = {team: kept for team, kept in self._earlier.items() if team in of_teams}
        passed: dict[str, tuple[SoftBudget, ...]] = {}
        ratios: dict[tuple[str, str], float] = {}
        logged: set[tuple[str, SoftMeasure, str]] = set()
        uses: dict[str, list[SoftBudgetUse]] = {}
        for team, budgets in of_teams.items():
            try:
                used = await self._used(team, budgets, now)
            except StoreUnavailable:
                logged |= {each for each in self._logged if any(each[0] == budget.text for budget in budgets)}
                continue
            uses[team] = [self._use(budget, units) for budget, units in zip(budgets, used, strict=True)]
            for budget, units in zip(budgets, used, strict=True):
                ratio = units / budget.amount
                ratios[team, budget.label] = max(ratio, ratios.get((team, budget.label), 0.0))
                if ratio > 1.0:
                    passed[team] = (*passed.get(team, ()), budget)
                    logged.add(self._log_once(budget, units))
        self.passed, self._logged, self.uses = passed, logged, uses
        self.statuses = tuple(SoftBudgetStatus(team, label, ratio) for (team, label), ratio in ratios.items())

    def _use(self, budget: SoftBudget, units: float) -> SoftBudgetUse:
        calendar = self._calendar
        if budget.measure.endswith("_day"):
            return SoftBudgetUse(budget, calendar.day, calendar.day_ends, units)
        return SoftBudgetUse(budget, calendar.month, calendar.month_ends, units)

    def _log_once(self, budget: SoftBudget, units: float) -> tuple[str, SoftMeasure, str]:
        """Log that *budget* is exceeded, at most once per period."""
        period = self._calendar.day if budget.measure.endswith("_day") else self._calendar.month
        crossing = (budget.text, budget.measure, period)
        if crossing not in self._logged:
            text = "%s: the soft budget %s for %s is exceeded: %s used of %s"
            _log.warning(text, budget.text, budget.measure, period, number(units), number(budget.amount))
        return crossing

    def _budgets(self) -> Iterator[SoftBudget]:
        for team in self._directory.teams.values():
            yield from _budgets_in(team.name, None, team.limits, team.model_limits)
        for key in self._directory.keys.values():
            yield from _budgets_in(key.team, key.id, key.limits, key.model_limits)

    async def _used(self, team: str, budgets: Iterable[SoftBudget], now: float) -> list[float]:
        """Return the used units of each budget in *budgets* in its current period. All budgets must belong to *team*.
        Raises StoreUnavailable.
        """
        today = await self._sums(team, self._calendar.day, self._calendar.day)
        earlier: list[UsageSum] = []
        if any(budget.measure.endswith("_month") for budget in budgets):
            earlier = await self._before_today(team, now)
        return [
            sum(
                self._units(each, budget.measure)
                for each in (today if budget.measure.endswith("_day") else (*earlier, *today))
                if budget.key in {None, each.group["key"]} and budget.model in {None, each.group["model"]}
            )
            for budget in budgets
        ]

    async def _before_today(self, team: str, now: float) -> list[UsageSum]:
        today = self._calendar.day
        if today.endswith("-01"):
            return []
        kept = self._earlier.get(team)
        if kept is None or kept.day != today or not 0.0 <= now - kept.read_at < EARLIER_S:
            yesterday = (date.fromisoformat(today) - timedelta(days=1)).isoformat()
            sums = await self._sums(team, f"{self._calendar.month}-01", yesterday)
            kept = self._earlier[team] = _Earlier(today, now, sums)
        return kept.sums

    async def _sums(self, team: str, first_day: str, last_day: str) -> list[UsageSum]:
        query = SumQuery(period=Period(first_day, last_day), of=Filter(team=team), by=("key", "model"))
        return await self._usage.sums(query)

    def _units(self, used: UsageSum, measure: SoftMeasure) -> float:
        if measure.startswith("soft_usd"):
            return used.cost_usd
        return used.prompt_tokens - used.cached_tokens * (1.0 - self._cached_weight) + used.completion_tokens


def _budgets_in(team: str, key: str | None, limits: Limits, model_limits: dict[str, Limits]) -> Iterator[SoftBudget]:
    scopes: list[tuple[str | None, Limits]] = [(None, limits), *model_limits.items()]
    for model, each in scopes:
        for measure in SOFT_MEASURES:
            amount = getattr(each, measure)
            if amount is not None:
                yield SoftBudget(team, key, model, measure, float(amount))
