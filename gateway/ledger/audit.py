"""The audit log: who changed what, in the words of before and after. No digest and no secret gets into it."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gateway.ledger.cursor import Page

Action = Literal["create", "update", "rotate", "delete", "drain", "undrain", "reload", "refuse", "start", "credit"]
Kind = Literal["team", "key", "worker", "settings", "login"]

HIDDEN = frozenset({"digest", "former_digest", "secret", "secret_sha256", "secret_env", "pepper", "api_key"})
"""Names of fields whose values are left out, wherever they stand."""

AuditPage = Page["AuditEntry"]
"""Newest first."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change. Stored as its JSON."""

    time: str
    """RFC 3339 in UTC, to the millisecond."""
    who: str
    """Id of the admin key; ``local`` for a command on the machine of the store, ``file:`` with the name of the
    configuration for what was changed there, ``unknown`` for strangers.
    """
    role: str
    action: Action
    kind: Kind
    id: str
    """Of what was changed: name of the team, id of the key or of the worker."""
    team: str | None = None
    """That it belongs to."""
    before: dict[str, Any] | None = None
    """As the admin API shows it; None: it was not there."""
    after: dict[str, Any] | None = None


def shown(entity: msgspec.Struct | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """*entity* (a Team, a Key, a mapping) as plain JSON values without what `HIDDEN` names, at any depth.

    Of a secret that was replaced nothing is told; that it was is the entry's action.
    """
    return None if entity is None else _without_hidden(msgspec.to_builtins(entity))


def _without_hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_hidden(inner) for name, inner in value.items() if name not in HIDDEN}
    if isinstance(value, list | tuple):
        return [_without_hidden(inner) for inner in value]
    return value
