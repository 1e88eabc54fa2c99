"""The audit log: who changed what, with the state before and after. It contains no digests and no secrets."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gateway.tenancy.ledger.cursor import Page

Action = Literal["create", "update", "rotate", "delete", "drain", "undrain", "reload", "refuse", "start", "credit"]
Kind = Literal["team", "key", "worker", "settings", "login"]

HIDDEN = frozenset({"digest", "former_digest", "secret", "secret_sha256", "secret_env", "pepper", "api_key"})
"""Names of fields whose values are left out, at any depth."""

AuditPage = Page["AuditEntry"]
"""Newest first."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change. Stored as its JSON."""

    time: str
    """RFC 3339 in UTC, to the millisecond."""
    who: str
    """Id of the admin key; ``local`` for a command on the machine of the store, ``file:`` with the name of the
    configuration for changes in it, ``unknown`` for strangers."""
    role: str
    action: Action
    kind: Kind
    id: str
    """Name of the changed team, or id of the changed key or worker."""
    team: str | None = None
    """Team of the changed object."""
    before: dict[str, Any] | None = None
    """State as the admin API shows it; None: it did not exist."""
    after: dict[str, Any] | None = None


def shown(entity: msgspec.Struct | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return *entity* (a Team, a Key, a mapping) as plain JSON values without the fields of `HIDDEN`, at any depth.

    A replaced secret appears as the entry's action only.
    """
    return None if entity is None else _without_hidden(msgspec.to_builtins(entity))


def _without_hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_hidden(inner) for name, inner in value.items() if name not in HIDDEN}
    if isinstance(value, list | tuple):
        return [_without_hidden(inner) for inner in value]
    return value
