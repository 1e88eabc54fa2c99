"""Quotas of all gateway replicas, counted in Redis.

1. A reservation takes one round trip of at most `TIMEOUT_S` of the link, which concurrent requests of a team share. A
   request that comes during a round trip waits for the next one. Everything else happens in the background.
2. A granted reservation is settled and booked exactly once, even if the store is unavailable or loses its last writes.
3. While the store is unavailable, each gateway grants its `Share`. The beginning and the end of that time are logged.
   Before the store decides again, it is charged with the units that were granted meanwhile.
4. A store that lost its data counts as unavailable until it is initialized, because its limits would start at zero.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import FIRST_PROBE_S, OPEN_S, RedisLink
from gateway.storage.unfit import WITHOUT_DATA, StoreUnfit
from gateway.tenancy.ledger.entry import Draft
from gateway.tenancy.quota.leases import Leases
from gateway.tenancy.quota.limit import Charge, Granted, Refused
from gateway.tenancy.quota.meters import MAX_LIMITS
from gateway.tenancy.quota.outbox import MAX_WAITING, Outbox, WaitingOperations
from gateway.tenancy.quota.outbox_sender import OutboxSender
from gateway.tenancy.quota.redis_meters import RedisMeters
from gateway.tenancy.quota.redis_operation import Operation
from gateway.tenancy.quota.share import Live, Policy, Share
from gateway.tenancy.quota.team_calls import TeamCalls

_log = logging.getLogger(__name__)

BUSY = 8
"""Number of operations that were sent together, from which on the gateway counts as busy."""
SEND_EVERY_S = 0.005
"""Seconds for which a busy gateway collects operations before it sends the next ones, unless a team has to be
announced. Meanwhile, calls with reservations carry out operations too.
"""
LAST_S = 5.0
"""Seconds for sending the remaining operations on shutdown. A store that restarts or fails over can come back in this
time.
"""


class RedisQuotaStore:
    """Quota store in the Redis that *link* connects to."""

    in_memory = None

    def __init__(
        self,
        link: RedisLink,
        *,
        clock: Callable[[], float],
        lease_s: float = 30.0,
        replicas: int = 1,
        policy: Policy | None = None,
        verify: Callable[[], Awaitable[None]] | None = None,
        max_waiting: int = MAX_WAITING,
        store_clock: Callable[[], float] | None = None,
        last_s: float = LAST_S,
        max_limits: int = MAX_LIMITS,
    ) -> None:
        """Create the quota store. *clock* returns the time in seconds since 1970. It is used while the store is
        unavailable. *store_clock* is for tests.

        *verify* raises StoreUnavailable if the store has no data. If *verify* is None, any store is accepted. *last_s*
        is the time in seconds to send the remaining operations on shutdown. *max_limits* is the number of limits of a
        team beyond which no further end users and sessions are counted.
        """
        self._verify = verify
        self._doubted: StoreUnfit | None = None
        outbox = Outbox(max_waiting=max_waiting)
        self._meters = RedisMeters(
            link,
            lease_s=lease_s,
            writer=uuid.uuid4().hex,
            now=store_clock,
            max_limits=max_limits,
            waiting=WaitingOperations(outbox, clock=clock),
        )
        self._share = Share(policy or Policy(), replicas=replicas, max_limits=max_limits)
        self._clock = clock
        self._lease_s = lease_s
        self._last_s = last_s
        self._work = asyncio.Event()
        calls = TeamCalls(self._work)
        self._leases = Leases(self._meters, calls, clock=clock)
        self._sender = OutboxSender(self._meters, outbox, calls, self._work, clock=clock)
        self._is_unavailable = False
        self._lost = asyncio.Event()

    @property
    def is_degraded(self) -> bool:
        return self._is_unavailable

    @property
    def waiting_entries(self) -> int:
        return len(self._sender)

    @property
    def dropped_entries(self) -> int:
        return self._sender.dropped

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        self._sender.register(team)
        was_asked = not self._is_unavailable
        if was_asked:
            try:
                decision = await self._meters.reserve(team, reservation, charges, lost)
            except StoreUnavailable as fault:
                self._note_unavailable(fault.message)
            except asyncio.CancelledError:  # the caller left during the call
                self._drop(team, reservation)
                raise
            else:
                if isinstance(decision, Granted):
                    self._leases.add(reservation, Live(team, charges, lost))
                return decision
        return self._reserve_by_share(team, reservation, charges, lost, was_asked=was_asked)

    def settle(self, team: str, reservation: str, charges: Sequence[Charge], entry: Draft) -> None:
        if self._leases.end(reservation):  # otherwise it is settled already
            self._share.settle(reservation, charges)
            self._sender.add(team, Operation("settle", reservation, charges, entry()))

    def book(self, team: str, entry: Draft) -> None:
        self._sender.register(team)
        made = entry()
        if made is not None:
            self._sender.add(team, Operation("book", "", (), made))

    def doubt(self, fault: StoreUnfit) -> None:
        """Treat the store as unavailable until *verify* succeeds, if *fault* means that the store has no data."""
        if fault.state in WITHOUT_DATA and self._verify is not None:
            self._doubted = fault
            self._note_unavailable("the store has no data")

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        self._check_data()
        return await self._meters.spent(team, charges)

    async def refund(self, team: str, charges: Sequence[Charge]) -> None:
        self._check_data()
        await self._meters.refund(team, charges)

    async def run(self) -> None:
        """Do the work of `QuotaStore.run`. On shutdown, operations that the store does not accept within *last_s*
        seconds are lost, and the loss is logged.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send_always())
                tasks.create_task(self._renew_always())
                tasks.create_task(self._reconnect_always())
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._last_s):
                    await self._send_last()
            if self._sender:
                _log.error(
                    "%d settlements and reservations are lost: the quota store did not accept them before shutdown",
                    len(self._sender),
                )

    def _reserve_by_share(
        self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft, *, was_asked: bool
    ) -> Granted | Refused:
        """Decide on a reservation without the store. If *was_asked*, the store might already have granted it."""
        decision: Granted | Refused | None = None
        try:
            decision = self._share.reserve(team, reservation, charges, self._clock())
        finally:
            if was_asked and not isinstance(decision, Granted):
                self._drop(team, reservation)
        if isinstance(decision, Granted):
            self._leases.add(reservation, Live(team, charges, lost), is_unsure=True)
            if not self._is_unavailable:  # it came back while this request waited for it
                self._adopt()
        return decision

    def _drop(self, team: str, reservation: str) -> None:
        self._sender.add(team, Operation("drop", reservation, (), None))

    def _adopt(self) -> None:
        """Send the active reservations that the store might not know."""
        for reservation, live in self._leases.pop_unsure():
            self._sender.add(live.team, Operation("adopt", reservation, live.charges, live.lost()))

    def _check_data(self) -> None:
        """Raise StoreUnfit if the store has lost its data."""
        if self._doubted is not None:
            raise StoreUnfit(self._doubted.message, state=self._doubted.state)

    # ---- the store becomes unavailable, and comes back

    def _note_unavailable(self, why: str) -> None:
        if not self._is_unavailable:
            self._is_unavailable = True
            self._lost.set()
            self._leases.doubt_all()
            self._share.begin(self._leases.live, self._clock())
            _log.error("the quota store is unavailable, and this gateway grants its share of the limits: %s", why)

    async def _reconnect_always(self) -> None:
        while True:
            await self._lost.wait()
            pause_s = FIRST_PROBE_S
            while self._is_unavailable:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, OPEN_S)
                with suppress(StoreUnavailable):
                    await self._reconnect()

    async def _reconnect(self) -> None:
        """Charge the store with the units that were granted without it or that it might have lost. Then, let the store
        decide again.
        """
        if self._verify is not None:
            await self._verify()
            self._doubted = None
        await self._meters.check()
        self._sender.resend_recent()
        self._adopt()
        await self._sender.send()
        await self._renew()
        self._adopt()
        if self._doubted is not None:  # it lost its data meanwhile
            return
        self._is_unavailable = False
        self._lost.clear()
        self._work.set()
        _log.info("the quota store is available again")

    # ---- background tasks

    async def _send_always(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            if self._is_unavailable:
                continue
            try:
                is_busy = await self._sender.send() >= BUSY
            except StoreUnavailable as fault:
                self._note_unavailable(fault.message)
                continue
            if is_busy:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SEND_EVERY_S):
                        await self._sender.has_new_team.wait()

    async def _send_last(self) -> None:
        """Send all remaining operations. Retry until canceled, because the store might come back."""
        while True:
            try:
                await (self._reconnect() if self._is_unavailable else self._sender.send())
            except StoreUnavailable as fault:
                self._note_unavailable(fault.message)
            if not self._sender:
                return
            await asyncio.sleep(FIRST_PROBE_S)

    async def _renew_always(self) -> None:
        while True:
            if not self._is_unavailable:
                try:
                    await self._renew()
                except StoreUnavailable as fault:
                    self._note_unavailable(fault.message)
            await asyncio.sleep(self._lease_s / 3)

    async def _renew(self) -> None:
        alive = self._leases.by_team()
        self._sender.forget_all_but(alive)
        await self._leases.renew(alive)
