"""Audit log entries for requests without a valid admin key.

Requests are counted and summarized, so that an attacker cannot fill the audit log.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

from fastapi import Request

from gateway.api.times import to_the_millisecond
from gateway.protocol.errors import StoreUnavailable
from gateway.protocol.networks import Networks, source_of
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.team_store import TeamStore

_log = logging.getLogger(__name__)

Reason = Literal["no key", "wrong key", "too many attempts", "identity provider"]

SHORTEST_S = 60.0
"""Minimum seconds between two audit log entries. The interval is doubled while an attack continues."""
LONGEST_S = 3600.0
MAX_ADDRESSES = 8
"""Maximum number of client addresses in one audit log entry.

Requests from further addresses are counted without an address.
"""
LOOK_S = 1.0


class RefusedLogins:
    """Counter of rejected admin requests that writes at most one audit log entry per interval.

    *wall_clock* returns seconds since 1970.

    For requests from *trusted_proxies*, the header ``x-forwarded-for`` determines the source address.
    """

    def __init__(
        self, store: TeamStore, *, wall_clock: Callable[[], float], trusted_proxies: Sequence[str] = ()
    ) -> None:
        self._store = store
        self._proxies = Networks(trusted_proxies)
        self._wall_clock = wall_clock
        self._interval_s = SHORTEST_S
        self._noted_at = float("-inf")
        self._since = 0.0
        self._reasons: dict[str, int] = {}
        self._addresses: dict[str, int] = {}

    def count_request(self, request: Request, reason: Reason) -> None:
        """Count *request*, which was rejected for *reason*."""
        peer = None if request.client is None else request.client.host
        forwarded = request.headers.getlist("x-forwarded-for")
        source = source_of(peer, ",".join(forwarded) if forwarded else None, self._proxies)
        self.count(reason, None if source is None else str(source))

    def count(self, reason: Reason, address: str | None) -> None:
        """Count a rejected request from *address*."""
        if not self._reasons:
            self._since = self._wall_clock()
        self._reasons[reason] = self._reasons.get(reason, 0) + 1
        known = address or "unknown"
        if known in self._addresses or len(self._addresses) < MAX_ADDRESSES:
            self._addresses[known] = self._addresses.get(known, 0) + 1

    async def settle(self) -> None:
        """Write an audit log entry for the counted requests, if the interval since the last entry has passed."""
        now = self._wall_clock()
        if not self._reasons or now - self._noted_at < self._interval_s:
            return
        is_quiet = now - self._noted_at >= 2 * self._interval_s
        self._interval_s = SHORTEST_S if is_quiet else min(2 * self._interval_s, LONGEST_S)
        self._noted_at = now
        entry = self._entry(now)
        self._reasons, self._addresses = {}, {}
        try:
            await self._store.note(entry)
        except StoreUnavailable:
            _log.warning(
                "requests with wrong admin keys are missing from the audit log because the store is unavailable: %s",
                entry.after,
            )

    async def run(self) -> None:
        """Write audit log entries for rejected requests when they are due, until canceled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.settle()

    def _entry(self, now: float) -> AuditEntry:
        after: dict[str, Any] = {
            "requests": sum(self._reasons.values()),
            "since": to_the_millisecond(self._since),
            "reasons": dict(self._reasons),
            "addresses": dict(self._addresses),
        }
        return AuditEntry(
            time=to_the_millisecond(now),
            who="unknown",
            role="none",
            action="refuse",
            kind="login",
            id="admin",
            after=after,
        )
