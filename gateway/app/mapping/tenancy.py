"""Conversion of settings to the rules for teams, keys, quotas and the store."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

from gateway.app.mapping.identity import identity_rules
from gateway.app.mapping.limits import limits_of, model_limits_of
from gateway.app.store_rules import StoreRules
from gateway.app.tenancy import TenancyRules
from gateway.settings import KeySettings, PriceSettings, Settings, SettingsError, TeamSettings
from gateway.settings.rules import SQLITE, OnUnavailable
from gateway.storage.sqlite_file import MEMORY
from gateway.tenancy.quota.share import Policy, WhenAway
from gateway.tenancy.teams.declared import Declared, DeclaredKey, DeclaredTeam, TwoKeysOneSecretError, digested
from gateway.tenancy.teams.ineffective_limits import ineffective_limits
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.secret import Digester, hashed
from gateway.tenancy.teams.team import Team


def declared_in(teams: Iterable[TeamSettings], digester: Digester) -> Declared:
    """Return the teams and keys that the settings *teams* declare.

    Raises:
        SettingsError: if two keys have the same secret.
    """
    try:
        return digested(map(_declared, teams), digester)
    except TwoKeysOneSecretError as fault:
        raise SettingsError(fault.sentences) from None


def ineffective_limits_in(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each configured limit that has no effect on any configured model."""
    models = {model.name for model in settings.models}
    free = sorted(model.name for model in settings.models if model.price == PriceSettings())
    return ineffective_limits(map(_declared, settings.teams), models, free)


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


def tenancy_rules(settings: Settings) -> TenancyRules:
    """Return the rules for teams, keys, quotas and the ledger."""
    quota, server = settings.quota, settings.server
    return TenancyRules(
        store=store_rules(settings),
        has_store=settings.store.url is not None,
        is_open=not settings.teams and not settings.identity.issuers and settings.store.url is None,
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
            model_limits=model_limits_of(team.model_limits),
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
        model_limits=model_limits_of(key.model_limits),
    )


def _sha256(key: KeySettings) -> bytes:
    if key.secret_sha256 is not None:
        return bytes.fromhex(key.secret_sha256.get_secret_value())
    assert key.secret is not None, "the settings are validated"
    return hashed(key.secret.get_secret_value())
