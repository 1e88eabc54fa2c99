"""Limit templates and model groups, which the configuration defines once and which teams and keys refer to by name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import structs

from gateway.protocol.field_types import GROUP_PREFIX
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team

TeamOrKey = TypeVar("TeamOrKey", Team, Key)


@dataclass(frozen=True, slots=True)
class NamedRules:
    """Limit templates and model groups by name."""

    templates: Mapping[str, Limits] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Model names, aliases, or prefixes that end in ``*``, by the name of their group."""

    def applied_to(self, entity: TeamOrKey) -> TeamOrKey:
        """Return *entity* with the limits of its template and the models of its groups.

        Limits of the entity itself take precedence over those of the template. If the template does not exist, the
        result still names it, and the caller must be refused. A group that does not exist contains no models.
        """
        if entity.limit_template is not None and entity.limit_template in self.templates:
            limits = _filled(entity.limits, self.templates[entity.limit_template])
            entity = structs.replace(entity, limits=limits, limit_template=None)
        if entity.models is not None and any(map(_is_group, entity.models)):
            entity = structs.replace(entity, models=tuple(self._expanded(entity.models)))
        return entity

    def unknown_groups(self, models: Sequence[str] | None) -> list[str]:
        """Return the names of the groups in *models* that do not exist."""
        return [name for name in _groups_in(models) if name not in self.groups]

    def _expanded(self, models: Sequence[str]) -> Iterator[str]:
        for each in models:
            if _is_group(each):
                yield from self.groups.get(each.removeprefix(GROUP_PREFIX), ())
            else:
                yield each


def _filled(limits: Limits, template: Limits) -> Limits:
    own = {name: value for name, value in structs.asdict(limits).items() if value is not None}
    return structs.replace(template, **own)


def _groups_in(models: Sequence[str] | None) -> list[str]:
    return [each.removeprefix(GROUP_PREFIX) for each in models or () if _is_group(each)]


def _is_group(name: str) -> bool:
    return name.startswith(GROUP_PREFIX)
