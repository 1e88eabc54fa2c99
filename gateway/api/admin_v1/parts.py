"""What the routes of the admin API are made of: handed in by the composition root, found by every route."""

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from fastapi import Depends, Request

from gateway.added_workers import KnownWorkers
from gateway.api.admin_v1.access import AdminKey
from gateway.api.admin_v1.answers import Answers
from gateway.api.admin_v1.claims import Claims
from gateway.api.admin_v1.entities import Entities
from gateway.api.admin_v1.times import to_the_millisecond
from gateway.draining import Draining
from gateway.errors import InvalidField, StoreAway
from gateway.ledger.audit import Action, AuditEntry, Kind, shown
from gateway.ledger.usage_store import UsageStore
from gateway.models import Models
from gateway.quota.budgets import Budgets
from gateway.reloads import Reloaded
from gateway.settings import Settings
from gateway.teams.key import Key
from gateway.teams.secret import Digester
from gateway.teams.team import Team
from gateway.teams.team_store import TeamStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdminGateway:
    """The gateway that the API belongs to."""

    models: Models
    settings: Callable[[], Settings]
    """Those in force at this moment."""
    reload: Callable[[], Awaitable[Reloaded]] | None = None
    """Reads the configuration again; None: there is no file."""
    draining: Draining = field(kw_only=True)
    budgets: Budgets | None = field(kw_only=True, default=None)
    """Of its teams and keys."""


@dataclass(frozen=True, slots=True)
class Parts:
    entities: Entities
    store: TeamStore
    usage: UsageStore
    claims: Claims
    answers: Answers
    """To repeated requests that concern this gateway alone."""
    digester: Callable[[], Awaitable[Digester]]
    """Of the settings' pepper, or of the store's own."""
    wall_clock: Callable[[], float]
    """Seconds since 1970."""
    zone: ZoneInfo
    """Whose days and months the ledger has."""
    gateway: AdminGateway | None
    guardrails: Callable[[], Collection[str]]
    """Names of those that are configured at this moment."""
    known_workers: Callable[[], KnownWorkers] | None
    """Those that are listed and found at this moment; None: nobody knows them, and none can be added."""

    def check_guardrails(self, team: Team, former: Team | None = None) -> None:
        """Check that guardrails which are new in *team* are configured: requests of the team would be refused.

        Raises:
            InvalidField: one is not.
        """
        unknown = set(team.guardrails) - set(() if former is None else former.guardrails) - set(self.guardrails())
        if unknown:
            text = "'guardrails' names a guardrail that is not configured: declare it under guardrails in the settings."
            raise InvalidField(text, param="guardrails")

    def check_models(self, entity: Team | Key, former: Team | Key | None = None) -> None:
        """That what is new in *entity* are limits of models that there are: others would come to nothing.

        Raises:
            InvalidField: of one there is none.
        """
        limited = entity.model_limits.keys() - (() if former is None else former.model_limits.keys())
        if self.gateway is not None and not limited <= {model.name for model in self.gateway.models}:
            text = "'model_limits' names a model that is not configured; aliases do not count here."
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
        """What the audit log is to say of a change of this moment."""
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
        """Log what is done already. It was right to do it, also while the store is away; then our own log has it."""
        try:
            await self.store.note(audit)
        except StoreAway:
            _log.warning("not in the audit log, as the store is away: %s", msgspec.json.encode(audit).decode())


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


PartsOfApp = Annotated[Parts, Depends(_parts)]


def _gateway(request: Request) -> AdminGateway:
    gateway = _parts(request).gateway
    assert gateway is not None, "without one these routes are not there"
    return gateway


GatewayOfApp = Annotated[AdminGateway, Depends(_gateway)]
