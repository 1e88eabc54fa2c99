"""API keys without limits, by team."""

from collections.abc import Iterable, Mapping
from typing import get_args

from gateway.api.admin_v1.gateway_facts import TeamFacts
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits, Measure
from gateway.tenancy.teams.team import Team

_MEASURES: tuple[str, ...] = get_args(Measure)


def team_facts(teams: Iterable[Team], keys: Mapping[str, Key], *, now: float) -> tuple[TeamFacts, ...]:
    """Return the facts about *teams* and their *keys*. *now* is in seconds since 1970. O(teams + keys)."""
    by_team: dict[str, list[Key]] = {}
    for key in keys.values():
        by_team.setdefault(key.team, []).append(key)
    return tuple(_facts(team, by_team.get(team.name, []), now) for team in teams)


def _facts(team: Team, keys: list[Key], now: float) -> TeamFacts:
    is_free = not team.blocked and not _is_limited(team)
    unlimited = tuple(key.id for key in keys if is_free and _is_usable(key, now) and not _is_limited(key))
    return TeamFacts(name=team.name, keys=len(keys), unlimited_keys=unlimited)


def _is_limited(scope: Team | Key) -> bool:
    """Return whether any limit can refuse requests. In contrast, soft budgets only warn."""
    return any(map(_has_limit, (scope.limits, *scope.model_limits.values())))


def _has_limit(limits: Limits) -> bool:
    return any(getattr(limits, measure) is not None for measure in _MEASURES)


def _is_usable(key: Key, now: float) -> bool:
    return not key.blocked and (key.expires_at is None or now < key.expires_at)
