"""Budgets whose owners are configured: teams, keys and projects. The amounts include the raises that apply."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gateway.tenancy.quota.limit import Charge, Limit
from gateway.tenancy.quota.plan import Calendar
from gateway.tenancy.quota.scope import Scope, Scoped, limit_id
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limit_raise import LimitRaise, raised_amount
from gateway.tenancy.teams.limits import Limits, Measure
from gateway.tenancy.teams.team import Team

BUDGETS: Final[tuple[Measure, ...]] = ("tokens_per_day", "usd_per_day", "usd_per_month")
"""Types of limits that are counted per day or per month."""


@dataclass(frozen=True, slots=True)
class KnownBudget:
    """Budget of an owner within one team."""

    team: str
    scoped: Scoped

    @property
    def is_monthly(self) -> bool:
        return self.scoped.measure == "usd_per_month"

    def period(self, calendar: Calendar) -> str:
        """Return the name of the current period of the budget in the updated *calendar*."""
        return calendar.month if self.is_monthly else calendar.day

    def nothing(self, calendar: Calendar, now: float) -> Charge:
        """Return a charge of no units in the current period. *now* is in seconds since 1970."""
        calendar.update(now)
        ends = calendar.month_ends if self.is_monthly else calendar.day_ends
        return Charge(self.scoped.limit, 0.0, self.period(calendar), ends - now)


def known_budgets(directory: Directory, now: float) -> Iterator[KnownBudget]:
    """Yield the budgets of all teams, projects and keys in *directory* at *now*, in seconds since 1970."""
    for team in directory.teams.values():
        yield from _of_team(team, now)
    for key in directory.keys.values():
        yield from _of_key(key, now)


def user_budgets(team: Team, users: Iterable[str], now: float) -> Iterator[KnownBudget]:
    """Yield the budgets of each of the end users *users* of *team* at *now*, in seconds since 1970."""
    for user in users:
        yield from _budgets(team.name, "user", user, team.user_limits, raises=team.raises, now=now)


def _of_team(team: Team, now: float) -> Iterator[KnownBudget]:
    yield from _budgets(team.name, "team", team.name, team.limits, raises=team.raises, now=now)
    for model, limits in team.model_limits.items():
        yield from _budgets(team.name, "team", team.name, limits, raises=team.raises, now=now, model=model)
    for project, limits in team.project_limits.items():
        yield from _budgets(team.name, "project", project, limits, raises=team.raises, now=now)


def _of_key(key: Key, now: float) -> Iterator[KnownBudget]:
    yield from _budgets(key.team, "key", key.id, key.limits, raises=key.raises, now=now)
    for model, limits in key.model_limits.items():
        yield from _budgets(key.team, "key", key.id, limits, raises=key.raises, now=now, model=model)


def _budgets(
    team: str,
    scope: Scope,
    name: str,
    limits: Limits,
    *,
    raises: tuple[LimitRaise, ...],
    now: float,
    model: str | None = None,
) -> Iterator[KnownBudget]:
    for measure in BUDGETS:
        amount = getattr(limits, measure)
        if amount is not None:
            raised = raised_amount(float(amount), raises, scope=scope, name=name, model=model, measure=measure, now=now)
            limit = Limit(limit_id(scope, name, model, measure), "period", raised)
            yield KnownBudget(team, Scoped(limit, measure, scope, name, model))
