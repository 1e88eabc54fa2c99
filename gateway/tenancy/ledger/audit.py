"""The audit log: who changed what, with the state before and after. It contains no digests and no secrets."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gateway.tenancy.ledger.cursor import Page

Action = Literal["create", "update", "rotate", "delete", "drain", "undrain", "reload", "refuse", "start", "credit"]
Kind = Literal["team", "key", "worker", "settings", "login"]

HIDDEN = frozenset({"digest", "former_digest", "secret", "secret_sha256", "secret_env", "pepper", "api_key"})
"""Names of fields that the audit log leaves out at any depth, because they hold secrets or digests."""

AuditPage = Page["AuditEntry"]
"""Page of audit log entries, newest first."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change in the audit log. Stores keep it as JSON."""

    time: str
    """Time of the change, RFC 3339 in UTC, to the millisecond."""
    who: str
    """Author of the change. This is the id of an admin key, ``local`` for a command on the store's own machine,
    ``file:`` plus the configuration name for a change in a configuration file, or ``unknown`` for an unauthenticated
    caller.
    """
    role: str
    action: Action
    kind: Kind
    id: str
    """Name of the changed team, or id of the changed key or worker."""
    team: str | None = None
    """Team that the changed object belongs to."""
    before: dict[str, Any] | None = None
    """State before the change as the admin API shows it, or None if the object did not exist."""
    after: dict[str, Any] | None = None


def shown(entity: msgspec.Struct | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return *entity* (a Team, a Key, or a mapping) as plain JSON values without the fields listed in `HIDDEN`, at any
    depth.

    The replacement of a secret is visible only in the action of the audit entry.
    """
    return None if entity is None else _without_hidden(msgspec.to_builtins(entity))


def _without_hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_hidden(inner) for name, inner in value.items() if name not in HIDDEN}
    if isinstance(value, list | tuple):
        return [_without_hidden(inner) for inner in value]
    return value
