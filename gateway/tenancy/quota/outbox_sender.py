"""Background sender of queued operations to the store, which also registers the teams of the operations."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from gateway.tenancy.quota.outbox import Outbox
from gateway.tenancy.quota.redis_meters import RedisMeters
from gateway.tenancy.quota.redis_operation import Operation
from gateway.tenancy.quota.team_calls import TeamCalls

_log = logging.getLogger(__name__)

BATCH = 64
"""Number of operations in one call, which takes Redis about 2 ms."""


class OutboxSender:
    """Queue of one gateway's store operations, with the calls that empty the queue."""

    def __init__(
        self,
        meters: RedisMeters,
        outbox: Outbox,
        calls: TeamCalls,
        work: asyncio.Event,
        *,
        clock: Callable[[], float],
    ) -> None:
        """Create the sender. *work* is set when there is something to send. *clock* returns seconds since 1970."""
        self._meters = meters
        self._outbox = outbox
        self._calls = calls
        self._work = work
        self._clock = clock
        self._sending = asyncio.Lock()
        self._registered: set[str] = set()
        self._unregistered: set[str] = set()
        self.has_new_team = asyncio.Event()
        """Event that is set while a team waits to be announced. Before that, no other gateway settles the team's
        reservations if this gateway dies.
        """

    def __len__(self) -> int:
        """Return the number of operations that the store has not received yet."""
        return len(self._outbox)

    @property
    def dropped(self) -> int:
        """Number of operations that were dropped because the queue was full. The ledger does not contain them."""
        return self._outbox.dropped

    def register(self, team: str) -> None:
        """Announce *team* to all gateways with the next call."""
        if team not in self._registered:
            self._registered.add(team)
            self._unregistered.add(team)
            self.has_new_team.set()
            self._work.set()

    def add(self, team: str, operation: Operation) -> None:
        """Add *operation* to the queue, so that the next call sends it to the store."""
        dropped = self._outbox.dropped
        self._outbox.add(team, operation)
        if dropped == 0 < self._outbox.dropped:
            _log.error("usage settlements are lost: the queue for the store is full (%d waiting)", len(self._outbox))
        self._work.set()

    def resend_recent(self) -> None:
        """Send recent operations and the names of their teams again, because the store might have lost them."""
        self._outbox.reopen(self._clock())
        self._unregistered.update(self._outbox.teams())

    def forget_all_but(self, teams: Iterable[str]) -> None:
        """Free the memory of old operations. A team that is not in *teams* will be registered again with its next
        reservation.
        """
        self._outbox.forget(self._clock())
        self._registered = set(teams)

    async def send(self) -> int:
        """Send all queued operations to the store, and return how many waited.

        Raises:
            StoreUnavailable: if some operations could not be sent.
        """
        async with self._sending:
            waited = len(self._outbox)
            if self._unregistered:
                teams, self._unregistered = self._unregistered, set()
                self.has_new_team.clear()
                try:
                    await self._meters.register(teams, self._clock())
                except BaseException:  # `run` cancels it at the end, and then sends what is left
                    self._unregistered |= teams
                    raise
            await self._calls.call_for_all(self._send_for, self._outbox.teams())
            return waited

    async def _send_for(self, team: str) -> None:
        while True:
            first, operations = self._outbox.first(team, BATCH)
            if not operations:
                return
            await self._meters.carry_out(team, first, operations)
            self._outbox.done(team, first + len(operations) - 1, self._clock())
