"""Conversion of settings to the rules for tokens of identity providers."""

from pathlib import Path

from gateway.app.identity_rules import IdentityRules, KeySource
from gateway.app.mapping.limits import limits_of, model_limits_of
from gateway.settings import IdentitySettings, IssuerSettings, TeamRuleSettings, TeamTemplateSettings
from gateway.tenancy.identity.issuer import Issuer
from gateway.tenancy.identity.team_rule import TeamRule
from gateway.tenancy.teams.team import Team


def identity_rules(settings: IdentitySettings) -> IdentityRules:
    """Return the issuers of tokens, with the places of their keys."""
    return IdentityRules(
        issuers=tuple((_issuer(each), _source(each)) for each in settings.issuers), max_teams=settings.max_teams
    )


def _issuer(settings: IssuerSettings) -> Issuer:
    return Issuer(
        name=settings.name,
        url=settings.issuer,
        audiences=frozenset(settings.audiences),
        algorithms=frozenset(settings.algorithms),
        leeway_s=settings.leeway_s,
        max_lifetime_s=settings.max_lifetime_s,
        user_claim=settings.user_claim,
        rules=tuple(map(_rule, settings.rules)),
    )


def _source(settings: IssuerSettings) -> KeySource:
    return KeySource(
        issuer=settings.issuer,
        url=settings.jwks_url,
        ca_file=None if settings.ca_file is None else Path(settings.ca_file),
        token_file=None if settings.token_file is None else Path(settings.token_file),
        refresh_s=settings.refresh_s,
        stale_s=settings.stale_s,
    )


def _rule(settings: TeamRuleSettings) -> TeamRule:
    template = settings.create_team
    return TeamRule(
        claim=settings.claim,
        value=settings.value,
        team=settings.team,
        project=settings.project,
        models=settings.models,
        priority=settings.priority,
        template=None if template is None else _template(template),
    )


def _template(settings: TeamTemplateSettings) -> Team:
    return Team(
        name="",
        weight=settings.weight,
        priority=settings.priority,
        models=settings.models,
        fallback=settings.fallback,
        isolated_cache=settings.isolated_cache,
        limits=limits_of(settings.limits),
        model_limits=model_limits_of(settings.model_limits),
    )
