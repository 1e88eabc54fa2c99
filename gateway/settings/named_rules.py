"""References to limit templates and model groups, which must exist."""

from collections.abc import Iterator, Sequence

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_names import Place, did_you_mean
from gateway.protocol.field_types import GROUP_PREFIX
from gateway.settings.identity import IssuerSettings
from gateway.settings.teams import LimitTemplateSettings, ModelGroupSettings, TeamSettings


def faults_of_named_rules(
    templates: Sequence[LimitTemplateSettings],
    groups: Sequence[ModelGroupSettings],
    teams: Sequence[TeamSettings],
    issuers: Sequence[IssuerSettings],
) -> list[Contradiction]:
    """Return the contradictions between the names of *templates* and *groups*, and the names that refer to them."""
    found = repeated([(("limit_templates", i, "name"), each.name) for i, each in enumerate(templates)])
    found += repeated([(("model_groups", i, "name"), each.name) for i, each in enumerate(groups)])
    known = [each.name for each in templates]
    for place, name in _named_templates(teams, issuers):
        if name is not None and name not in known:
            text = f"names {name!r}, which is not one of limit_templates{did_you_mean(name, known)}"
            found.append(Contradiction((*place, "limit_template"), text))
    known = [each.name for each in groups]
    for place, models in _lists_of_models(teams, issuers):
        for i, model in enumerate(models or ()):
            group = model.removeprefix(GROUP_PREFIX)
            if group != model and group not in known:
                text = f"names {group!r}, which is not one of model_groups{did_you_mean(group, known)}"
                found.append(Contradiction((*place, "models", i), text))
    return found


def _named_templates(
    teams: Sequence[TeamSettings], issuers: Sequence[IssuerSettings]
) -> Iterator[tuple[Place, str | None]]:
    for i, team in enumerate(teams):
        yield ("teams", i), team.limit_template
        for j, key in enumerate(team.keys):
            yield ("teams", i, "keys", j), key.limit_template
    for i, issuer in enumerate(issuers):
        for j, rule in enumerate(issuer.rules):
            if rule.create_team is not None:
                yield ("identity", "issuers", i, "rules", j, "create_team"), rule.create_team.limit_template


def _lists_of_models(
    teams: Sequence[TeamSettings], issuers: Sequence[IssuerSettings]
) -> Iterator[tuple[Place, Sequence[str] | None]]:
    for i, team in enumerate(teams):
        yield ("teams", i), team.models
        for j, key in enumerate(team.keys):
            yield ("teams", i, "keys", j), key.models
    for i, issuer in enumerate(issuers):
        for j, rule in enumerate(issuer.rules):
            yield ("identity", "issuers", i, "rules", j), rule.models
            if rule.create_team is not None:
                yield ("identity", "issuers", i, "rules", j, "create_team"), rule.create_team.models
