"""Limits that are set and come to nothing: whoever set them believes otherwise."""

from collections.abc import Iterator

from gateway.settings import KeySettings, LimitSettings, PriceSettings, Settings, TeamSettings


def idle_limits(settings: Settings) -> Iterator[str]:
    """A sentence for each limit of *settings* that these models never meet."""
    models = {model.name for model in settings.models}
    free = sorted(model.name for model in settings.models if model.price == PriceSettings())
    for team in settings.teams:
        yield from _of(team, f"the team {team.name!r}", models, free)
        for key in team.keys:
            yield from _of(key, f"the key {key.id!r}", models, free)


def _of(scope: TeamSettings | KeySettings, whose: str, models: set[str], free: list[str]) -> Iterator[str]:
    for model in sorted(scope.model_limits.keys() - models):
        yield f"limits of {whose} for {model!r} have no effect: no model has that name (aliases do not count here)"
    if free and any(map(_is_budget, (scope.limits, *scope.model_limits.values()))):
        yield f"budgets of {whose} in US dollars do not count models without a price: {', '.join(free)}"


def _is_budget(limits: LimitSettings) -> bool:
    usd = (limits.usd_per_day, limits.usd_per_month, limits.soft_usd_per_day, limits.soft_usd_per_month)
    return any(each is not None for each in usd)
