"""Conversion of settings to the rules for teams, keys, tokens, quotas and the store."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

from gateway.app.identity_rules import IdentityRules, KeySource, LoginRules
from gateway.app.store_rules import StoreRules, TablePlace
from gateway.app.tenancy import TenancyRules
from gateway.settings import (
    ConsoleLoginSettings,
    HardLimitSettings,
    IdentitySettings,
    IssuerSettings,
    KeySettings,
    PriceSettings,
    ScimSettings,
    Settings,
    SettingsError,
    TeamRuleSettings,
    TeamSettings,
    TeamTemplateSettings,
)
from gateway.settings.rules import SQLITE, OnUnavailable
from gateway.storage.sqlite_file import MEMORY
from gateway.tenancy.identity.issuer import Issuer, Provisioning
from gateway.tenancy.identity.role_rule import RoleRule
from gateway.tenancy.identity.team_rule import TeamRule
from gateway.tenancy.quota.share import Policy, WhenAway
from gateway.tenancy.teams.declared import Declared, DeclaredKey, DeclaredTeam, TwoKeysOneSecretError, digested
from gateway.tenancy.teams.ineffective_limits import ineffective_limits
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.named_rules import NamedRules
from gateway.tenancy.teams.secret import Digester, hashed
from gateway.tenancy.teams.team import Team


def declared_in(settings: Settings, digester: Digester) -> Declared:
    """Return the teams and keys that *settings* declare, and the limit templates and model groups.

    Raises:
        SettingsError: if two keys have the same secret.
    """
    try:
        return digested(map(_declared, settings.teams), digester, _named_rules(settings))
    except TwoKeysOneSecretError as fault:
        raise SettingsError(fault.sentences) from None


def ineffective_limits_in(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each configured limit that has no effect on any configured model."""
    models = {model.name for model in settings.models}
    free = sorted(model.name for model in settings.models if model.price == PriceSettings())
    rules = _named_rules(settings)
    return ineffective_limits((_with(rules, _declared(team)) for team in settings.teams), models, free)


def _with(rules: NamedRules, declared: DeclaredTeam) -> DeclaredTeam:
    keys = tuple(replace(each, key=rules.applied_to(each.key)) for each in declared.keys)
    return DeclaredTeam(rules.applied_to(declared.team), keys)


def _named_rules(settings: Settings) -> NamedRules:
    return NamedRules(
        templates={each.name: limits_of(each.limits) for each in settings.limit_templates},
        groups={each.name: each.models for each in settings.model_groups},
    )


def store_rules(settings: Settings) -> StoreRules:
    """Return the rules for access to the configured store. Without a store, data is kept in memory."""
    store, url = settings.store, settings.store.url
    is_file = url is None or url.startswith(SQLITE)
    return StoreRules(
        file=None if not is_file else Path(MEMORY) if url is None else Path(url.removeprefix(SQLITE)),
        url="" if url is None or is_file else url,
        pepper=None if store.pepper is None else store.pepper.get_secret_value().encode(),
        embedded_lease_s=settings.routing.lease_s,
        lease_s=store.lease_s,
        max_limits=settings.quota.max_limits_per_team,
        timeout_s=store.timeout_s,
        replicas=store.replicas,
        response_days=store.response_days,
        policy=Policy(
            requests=_when_away(store.on_unavailable_requests),
            tokens=_when_away(store.on_unavailable_tokens),
            concurrent=_when_away(store.on_unavailable_concurrent),
            budget=_when_away(store.on_unavailable_budget),
        ),
    )


def tenancy_rules(
    settings: Settings, *, is_store_hidden: bool = False, table: TablePlace | None = None
) -> TenancyRules:
    """Return the rules for teams, keys, quotas and the ledger.

    If *is_store_hidden* is true, the store is one that the operator did not configure. *table* is the place of one of
    several processes at their table of limits.
    """
    quota, server = settings.quota, settings.server
    return TenancyRules(
        store=replace(store_rules(settings), table=table),
        has_store=settings.store.url is not None,
        is_open=not settings.teams
        and not settings.identity.issuers
        and (settings.store.url is None or is_store_hidden),
        open_mode=server.open_mode,
        zone=ZoneInfo(quota.time_zone),
        burst=quota.burst,
        cached_weight=quota.cached_weight,
        max_unreserved_minutes=quota.max_unreserved_minutes,
        default_output_tokens=quota.default_output_tokens,
        max_output_tokens=quota.max_output_tokens,
        budget_tolerance=quota.budget_tolerance,
        retention_days=settings.store.retention_days,
        trusted_proxies=server.trusted_proxies,
        cors_origins=server.cors_origins,
        user_header=server.user_header,
        hit_headers=server.hit_headers,
        cost_header=server.cost_header,
        identity=identity_rules(settings.identity),
        warnings=tuple(ineffective_limits_in(settings)),
    )


def _when_away(policy: OnUnavailable) -> WhenAway:
    return "closed" if policy == "fail_closed" else policy


def _declared(team: TeamSettings) -> DeclaredTeam:
    return DeclaredTeam(
        Team(
            name=team.name,
            weight=team.weight,
            priority=team.priority,
            models=team.models,
            strategies=team.strategies,
            fallback=team.fallback,
            ttft_s=team.ttft_s,
            blocked=team.blocked,
            isolated_cache=team.isolated_cache,
            projects=team.projects,
            guardrails=team.guardrails,
            limits=limits_of(team.limits),
            limit_template=team.limit_template,
            model_limits=model_limits_of(team.model_limits),
            user_limits=limits_of(team.user_limits),
            session_limits=limits_of(team.session_limits),
            project_limits=model_limits_of(team.project_limits),
        ),
        tuple(DeclaredKey(_key(team.name, key), _sha256(key)) for key in team.keys),
    )


def _key(team: str, key: KeySettings) -> Key:
    return Key(
        id=key.id,
        team=team,
        digest="",
        project=key.project,
        models=key.models,
        strategies=key.strategies,
        fallback=key.fallback,
        networks=key.allowed_cidrs,
        priority=key.priority,
        weight=key.weight,
        limits=limits_of(key.limits),
        limit_template=key.limit_template,
        model_limits=model_limits_of(key.model_limits),
    )


def _sha256(key: KeySettings) -> bytes:
    if key.secret_sha256 is not None:
        return bytes.fromhex(key.secret_sha256.get_secret_value())
    assert key.secret is not None, "the settings are validated"
    return hashed(key.secret.get_secret_value())


def identity_rules(settings: IdentitySettings) -> IdentityRules:
    """Return the issuers of tokens, with the places of their keys."""
    return IdentityRules(
        issuers=tuple((_issuer(each), _source(each)) for each in settings.issuers),
        logins={each.name: _login(each.console) for each in settings.issuers if each.console is not None},
        max_teams=settings.max_teams,
    )


def _login(settings: ConsoleLoginSettings) -> LoginRules:
    return LoginRules(
        client_id=settings.client_id,
        client_secret=None if settings.secret is None else settings.secret.get_secret_value(),
        public_url=settings.public_url.rstrip("/"),
        scopes=settings.scopes,
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
        provisioning=None if settings.scim is None else _provisioning(settings.scim),
        admin_roles=tuple(RoleRule(each.claim, each.value, each.role, each.team) for each in settings.admin_roles),
    )


def _provisioning(settings: ScimSettings) -> Provisioning:
    return Provisioning(settings.user_claim, settings.attribute, accepts_unknown=settings.unknown_users == "allow")


def scim_secrets(settings: IdentitySettings) -> dict[str, str]:
    """Return the names of the issuers that provision people, by the token that they send."""
    return {
        each.scim.secret.get_secret_value(): each.name
        for each in settings.issuers
        if each.scim is not None and each.scim.secret is not None
    }


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
        limit_template=settings.limit_template,
        model_limits=model_limits_of(settings.model_limits),
        user_limits=limits_of(settings.user_limits),
        session_limits=limits_of(settings.session_limits),
    )


def limits_of(limits: HardLimitSettings) -> Limits:
    named = dict(limits)
    return Limits(concurrent=named.pop("max_concurrent_requests"), **named)


def model_limits_of(limits: Mapping[str, HardLimitSettings]) -> dict[str, Limits]:
    """Return *limits* by the same names, which are those of models or projects."""
    return {name: limits_of(each) for name, each in limits.items()}
