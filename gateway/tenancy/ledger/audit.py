"""Audit log of who changed what, with the state before and after each change. It contains no digests and no secrets."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gateway.tenancy.ledger.cursor import Page

Action = Literal[
    "create",
    "update",
    "rotate",
    "delete",
    "drain",
    "undrain",
    "reload",
    "refuse",
    "start",
    "credit",
    "login",
    "logout",
    "cancel",
]
Kind = Literal["team", "key", "worker", "route", "revocation", "user", "group", "settings", "login", "batch"]

HIDDEN = frozenset({"digest", "former_digest", "secret", "secret_sha256", "secret_env", "pepper", "api_key"})
"""Names of fields that the audit log omits at any depth, because they contain secrets or digests."""

AuditPage = Page["AuditEntry"]
"""Page of audit log entries, newest first."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Change or login in the audit log, which stores keep as JSON."""

    time: str
    """Time of the change in RFC 3339 format, in UTC, to the millisecond."""
    who: str
    """Author of the change: the id of an admin key, ``local`` for a command on the store's own machine, ``file:`` plus
    the configuration name for a change in a configuration file, or ``unknown`` for an unauthenticated caller.
    """
    role: str
    action: Action
    kind: Kind
    id: str
    """Name of the team or route, or id of the key, worker or batch, that was changed."""
    team: str | None = None
    """Team to which the changed object belongs, or None."""
    before: dict[str, Any] | None = None
    """State before the change in the form that the admin API shows, or None if the object did not exist."""
    after: dict[str, Any] | None = None


def shown(entity: msgspec.Struct | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return *entity* (a team, a key, or a mapping) as plain JSON values, without the fields in `HIDDEN` at any depth.

    The replacement of a secret is visible only in the action of the audit entry.
    """
    return None if entity is None else _without_hidden(msgspec.to_builtins(entity))


def _without_hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_hidden(inner) for name, inner in value.items() if name not in HIDDEN}
    if isinstance(value, list | tuple):
        return [_without_hidden(inner) for inner in value]
    return value
