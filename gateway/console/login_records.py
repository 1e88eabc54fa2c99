"""Audit log entries for logins and logouts.

The number of entries of one admin key per hour is limited, so that a holder of a key cannot push older entries out of
the audit log. Logins beyond the limit are counted, and the next entry of the key contains their number.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from gateway.api.admin_access import AdminKey
from gateway.api.times import to_the_millisecond
from gateway.protocol.errors import StoreUnavailable
from gateway.protocol.networks import Address
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.team_store import TeamStore

_log = logging.getLogger(__name__)

MAX_PER_WINDOW: Final = 60
"""Maximum number of entries of one admin key in `WINDOW_S`. Entries of failed logins have a limit of their own."""
WINDOW_S: Final = 3600.0

Means = Literal["admin key", "one-time link", "identity provider"]
MAX_COUNTED: Final = 1000
"""Maximum number of admin keys and people whose entries are counted. The count that began first is forgotten first."""


@dataclass(slots=True)
class _Count:
    """Entries of one admin key since *began_at*, in seconds since 1970."""

    began_at: float
    written: int = 0
    omitted: int = 0


class LoginRecords:
    """Writer of audit log entries for logins and logouts to *store*. *wall_clock* returns seconds since 1970."""

    def __init__(self, store: TeamStore, *, wall_clock: Callable[[], float]) -> None:
        self._store = store
        self._wall_clock = wall_clock
        self._counts: dict[str, _Count] = {}  # by id of an admin key or a person, the oldest first

    async def record_login(self, key: AdminKey, address: Address | None, means: Means) -> None:
        """Record that a person logged in with *key* from *address*, which is None if it is unknown."""
        await self._record("login", key, {"address": _text(address), "with": means})

    async def record_logout(self, key: AdminKey, address: Address | None) -> None:
        """Record that a person who was logged in with *key* logged out."""
        await self._record("logout", key, {"address": _text(address)})

    async def _record(self, action: Literal["login", "logout"], key: AdminKey, after: dict[str, Any]) -> None:
        now = self._wall_clock()
        count = self._counts.setdefault(key.id, _Count(now))
        while len(self._counts) > MAX_COUNTED:
            del self._counts[next(iter(self._counts))]
        if not 0 <= now - count.began_at < WINDOW_S:
            count.began_at, count.written = now, 0
        if count.written >= MAX_PER_WINDOW:
            count.omitted += 1
            return
        if count.omitted:
            after = {**after, "omitted_entries": count.omitted}
        count.written, count.omitted = count.written + 1, 0
        entry = AuditEntry(
            time=to_the_millisecond(now),
            who=key.id,
            role=key.role,
            action=action,
            kind="login",
            id="console",
            team=key.team,
            after=after,
        )
        try:
            await self._store.note(entry)
        except StoreUnavailable:
            _log.warning("a %s is missing from the audit log because the store is unavailable: %s", action, key.id)


def _text(address: Address | None) -> str:
    return "unknown" if address is None else str(address)
