"""Detection of limits in the configuration that have no effect."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from gateway.tenancy.teams.declared import DeclaredTeam
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team


def ineffective_limits(teams: Iterable[DeclaredTeam], models: Collection[str], free: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each limit of *teams* that can never apply to a model in *models*. *free* are the models
    without a price.
    """
    for declared in teams:
        yield from _of_scope(declared.team, f"the team {declared.team.name!r}", models, free)
        for each in declared.keys:
            yield from _of_scope(each.key, f"the key {each.key.id!r}", models, free)


def _of_scope(scope: Team | Key, owner: str, models: Collection[str], free: Sequence[str]) -> Iterator[str]:
    for model in sorted(scope.model_limits.keys() - set(models)):
        yield f"limits of {owner} for {model!r} have no effect: no model has that name (aliases do not count here)"
    limits = [scope.limits, *scope.model_limits.values()]
    if isinstance(scope, Team):
        limits += [scope.user_limits, scope.session_limits, *scope.project_limits.values()]
    if free and any(map(_is_budget, limits)):
        yield f"budgets of {owner} in US dollars do not count models without a price: {', '.join(free)}"


def _is_budget(limits: Limits) -> bool:
    usd = (limits.usd_per_day, limits.usd_per_month, limits.soft_usd_per_day, limits.soft_usd_per_month)
    return any(each is not None for each in usd)
