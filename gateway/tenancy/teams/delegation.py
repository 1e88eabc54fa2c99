"""Comparison of a key with its team, for people who manage the keys of one team and must not grant more than it has."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Priority, Team

_RANKS: Final[dict[Priority, int]] = {"low": 0, "normal": 1, "high": 2}
_NONE: Final = Limits()


def field_beyond_team(key: Key, team: Team) -> str | None:
    """Return the first field of *key* that grants more than *team* has, or None. Fields that are None grant nothing.

    Models and strategies beyond those of the team would have no effect. They are refused so that a key does not gain
    permissions later, when those of the team grow.
    """
    return next(_fields_beyond(key, team), None)


def _fields_beyond(key: Key, team: Team) -> Iterator[str]:
    if key.priority is not None and _RANKS[key.priority] > _RANKS[team.priority]:
        yield "priority"
    if key.weight is not None and key.weight > team.weight:
        yield "weight"
    if key.fallback and not team.fallback:
        yield "fallback"
    if not _is_within(key.models, team.models):
        yield "models"
    if not _is_within(key.strategies, team.strategies):
        yield "strategies"
    for name in _higher(key.limits, team.limits):
        yield f"limits.{name}"
    for model, limits in key.model_limits.items():
        for allowed in (team.limits, team.model_limits.get(model, _NONE)):
            for name in _higher(limits, allowed):
                yield f"model_limits.{model}.{name}"


def _is_within(names: Sequence[str] | None, allowed: Sequence[str] | None) -> bool:
    """Return whether each of *names* is one of *allowed*, or is covered by one that ends with ``*``."""
    if names is None or allowed is None:
        return True
    prefixes = tuple(each[:-1] for each in allowed if each.endswith("*"))
    return all(name in allowed or name.startswith(prefixes) for name in names)


def _higher(limits: Limits, allowed: Limits) -> Iterator[str]:
    """Yield the names of those of *limits* that are higher than the same limit in *allowed*."""
    most = msgspec.structs.asdict(allowed)
    for name, value in msgspec.structs.asdict(limits).items():
        if value is not None and most[name] is not None and value > most[name]:
            yield name
