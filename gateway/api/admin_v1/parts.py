"""Objects that the routes of the admin API use, passed in by the composition root."""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from fastapi import Depends, Request

from gateway.api.admin_access import AdminKey
from gateway.api.admin_v1.answers import Answers
from gateway.api.admin_v1.claims import Claims
from gateway.api.admin_v1.entities import Entities
from gateway.api.admin_v1.gateway_facts import GatewayFacts
from gateway.api.explain import Explainer
from gateway.api.times import to_the_millisecond
from gateway.batch.batches import Batches
from gateway.batch.files import Files
from gateway.models.registry import Models
from gateway.protocol.errors import InvalidField, StoreUnavailable
from gateway.telemetry.caches.views import CacheViews
from gateway.telemetry.receipts.receipts import Receipts
from gateway.telemetry.reloads import Reloaded
from gateway.telemetry.traffic_history import TrafficHistory
from gateway.telemetry.what_if.what_if import WhatIf
from gateway.tenancy.ledger.audit import Action, AuditEntry, Kind, shown
from gateway.tenancy.ledger.usage_store import UsageStore
from gateway.tenancy.quota.budgets import Budgets
from gateway.tenancy.quota.limit_status import LimitStatus, Owners
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.secret import Digester
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import TeamStore
from gateway.workers.added_workers import KnownWorkers
from gateway.workers.draining import Draining

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """One model in the settings. Prices are in US dollars per million tokens, or per hour of a worker."""

    name: str
    aliases: Sequence[str]
    upstream_model: str
    adapter_of: str | None
    strategy: str
    input_usd: float
    cached_input_usd: float
    output_usd: float
    gpu_hour_usd: float | None
    max_output_tokens: int | None
    bedrock: str | None


@dataclass(frozen=True, slots=True)
class AdminGateway:
    """Functions and state of the gateway that the admin API uses."""

    models: Models
    configured: Callable[[], Sequence[ConfiguredModel]]
    """Function that returns the models in the current settings."""
    reload: Callable[[], Awaitable[Reloaded]] | None = None
    """Function that reloads the configuration, or None if nothing can be reloaded."""
    draining: Draining = field(kw_only=True)
    budgets: Budgets | None = field(kw_only=True, default=None)
    """Budgets of teams and keys, or None."""
    limits: Callable[[Team, Owners], Awaitable[Sequence[LimitStatus]]] | None = field(kw_only=True, default=None)
    """Function that returns the limits of a team, and of owners within the team, with the amounts that are left, or
    None.
    """
    clock: Callable[[], float] = field(kw_only=True, default=time.monotonic)
    """Clock of the budgets of fallbacks, in monotonic seconds."""
    history: TrafficHistory | None = field(kw_only=True, default=None)
    """Samples of the traffic of the last hour, or None."""
    facts: Callable[[], GatewayFacts] = field(kw_only=True, default=GatewayFacts)
    """Function that returns the current facts about the gateway for a diagnosis."""
    receipts: Receipts | None = field(kw_only=True, default=None)
    """Receipts of the latest requests, or None if none are kept."""
    explainer: Explainer | None = field(kw_only=True, default=None)
    """Explanation of routing decisions, or None without one."""
    caches: CacheViews | None = field(kw_only=True, default=None)
    """Views of the caches, or None if the gateway does not observe their use."""
    batches: Batches | None = field(kw_only=True, default=None)
    """Batches of teams, or None if the gateway serves none."""
    files: Files | None = field(kw_only=True, default=None)
    """Files of teams, or None if the gateway serves none."""
    what_if: WhatIf | None = field(kw_only=True, default=None)
    """Replays of recorded requests, or None without them."""
    issuers: frozenset[str] = field(kw_only=True, default=frozenset())
    """Names of the issuers whose tokens are accepted."""


@dataclass(frozen=True, slots=True)
class Parts:
    entities: Entities
    store: TeamStore
    usage: UsageStore
    claims: Claims
    answers: Answers
    """Kept responses to requests that affect only this gateway, for repeated requests."""
    digester: Callable[[], Awaitable[Digester]]
    """Function that returns a digester of secrets with the pepper (secret salt) of the settings or of the store."""
    wall_clock: Callable[[], float]
    """Function that returns the seconds since 1970."""
    zone: ZoneInfo
    """Time zone of the ledger's days and months."""
    gateway: AdminGateway | None
    guardrails: Callable[[], Collection[str]]
    """Function that returns the names of the configured guardrails."""
    known_workers: Callable[[], KnownWorkers] | None
    """Function that returns the listed and discovered workers, or None if workers cannot be added."""

    def check_guardrails(self, team: Team, former: Team | None = None) -> None:
        """Check that guardrails added to *team* are configured. Otherwise, requests of the team would be rejected.

        Raises:
            InvalidField: if a guardrail is not configured.
        """
        unknown = set(team.guardrails) - set(() if former is None else former.guardrails) - set(self.guardrails())
        if unknown:
            text = "'guardrails' names a guardrail that is not configured: declare it under guardrails in the settings."
            raise InvalidField(text, param="guardrails")

    def check_named_rules(self, entity: Team | Key, former: Team | Key | None = None) -> None:
        """Check that the limit template and the model groups that were added to *entity* are configured.

        Raises:
            InvalidField: if one of them is not configured.
        """
        rules, template = self.entities.directory.rules, entity.limit_template
        is_new = former is None or template != former.limit_template
        if is_new and template is not None and template not in rules.templates:
            text = "'limit_template' is not configured: declare it under limit_templates in the settings."
            raise InvalidField(text, param="limit_template")
        known = () if former is None else rules.unknown_groups(former.models)
        if set(rules.unknown_groups(entity.models)) - set(known):
            text = "'models' names a model group that is not configured: declare it under model_groups in the settings."
            raise InvalidField(text, param="models")

    def check_models(self, entity: Team | Key, former: Team | Key | None = None) -> None:
        """Check that the models of limits added to *entity* are configured. Otherwise, the limits have no effect.

        Raises:
            InvalidField: if a model is not configured.
        """
        limited = entity.model_limits.keys() - (() if former is None else former.model_limits.keys())
        if self.gateway is not None and not limited <= {model.name for model in self.gateway.models}:
            text = "'model_limits' names a model that is not configured; give its name, not an alias."
            raise InvalidField(text, param="model_limits")

    def audit(
        self,
        who: AdminKey,
        action: Action,
        kind: Kind,
        entity: str,
        *,
        team: str | None = None,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
    ) -> AuditEntry:
        """Return an audit log entry for a change that is made now."""
        return AuditEntry(
            time=to_the_millisecond(self.wall_clock()),
            who=who.id,
            role=who.role,
            action=action,
            kind=kind,
            id=entity,
            team=team,
            before=shown(before),
            after=shown(after),
        )

    async def note(self, audit: AuditEntry) -> None:
        """Write an audit log entry for a completed change. If the store is unavailable, log the change locally."""
        try:
            await self.store.note(audit)
        except StoreUnavailable:
            _log.warning(
                "a change is missing from the audit log because the store is unavailable: %s",
                msgspec.json.encode(audit).decode(),
            )


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


PartsOfApp = Annotated[Parts, Depends(_parts)]


def _gateway(request: Request) -> AdminGateway:
    gateway = _parts(request).gateway
    assert gateway is not None, "the routes exist only with a gateway"
    return gateway


GatewayOfApp = Annotated[AdminGateway, Depends(_gateway)]


def _caches(request: Request) -> CacheViews:
    caches = _gateway(request).caches
    assert caches is not None, "the routes exist only if the use of caches is observed"
    return caches


CachesOfApp = Annotated[CacheViews, Depends(_caches)]
