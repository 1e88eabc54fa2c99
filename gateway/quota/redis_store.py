"""Quotas of all replicas, counted in Redis.

1. A reservation is one round trip, and waits for `TIMEOUT_S` of the link at most. All else is done in the background.
2. What was granted is settled and booked exactly once, be the store away for a while, or forget its last moments.
3. Without the store each gateway grants its `Share`. That is logged when it begins and when it ends, and what was
   granted is charged to the store before the store decides again.
4. A store that lost its data counts as away until it is initialized again: limits would begin at zero there.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from gateway.errors import StoreAway
from gateway.ledger.entry import Draft
from gateway.quota.limit import Charge, Granted, Refused
from gateway.quota.outbox import MOST, Outbox
from gateway.quota.redis_meters import Operation, RedisMeters
from gateway.quota.seats import Counted, Seats
from gateway.quota.share import Live, Policy, Share
from gateway.storage.redis_link import FIRST_LOOK_S, OPEN_S, RedisLink, StoreRefuses
from gateway.storage.unfit import WITHOUT_DATA, StoreUnfit

_log = logging.getLogger(__name__)

BATCH = 64
"""Operations in one call, some 2 ms of Redis's time."""
RENEWED = 500
"""Leases in one call."""
AT_ONCE = 8
"""Teams that are asked about in the background at the same time; requests have the other connections."""
LAST_S = 5.0
"""For what is left at the end: a store that is restarted, or hands over to its replica, may come back meanwhile."""


class RedisQuotaStore:
    """Implements `QuotaStore`, at the other end of *link*."""

    def __init__(
        self,
        link: RedisLink,
        *,
        clock: Callable[[], float],
        lease_s: float = 30.0,
        replicas: int = 1,
        policy: Policy | None = None,
        verify: Callable[[], Awaitable[None]] | None = None,
        most_waiting: int = MOST,
        store_clock: Callable[[], float] | None = None,
        last_s: float = LAST_S,
    ) -> None:
        """*clock* gives seconds since 1970, for the time without the store; *store_clock* is for tests only.

        *verify* raises StoreAway where the store has no data; None: any store will do. *last_s* is the time for what
        is left at the end.
        """
        self._verify = verify
        self._doubted: StoreUnfit | None = None
        self._meters = RedisMeters(link, lease_s=lease_s, writer=uuid.uuid4().hex, now=store_clock)
        self._share = Share(policy or Policy(), replicas=replicas)
        self._clock = clock
        self._lease_s = lease_s
        self._last_s = last_s
        self._live: dict[str, Live] = {}
        self._unsure: set[str] = set()
        """Of those that live, that the store may not know: granted without it, or just before it went."""
        self._outbox = Outbox(most=most_waiting)
        self._work = asyncio.Event()
        self._sending = asyncio.Lock()
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._registered: set[str] = set()
        self._unregistered: set[str] = set()
        self._cursors: dict[str, int] = {}
        self._is_away = False
        self._lost = asyncio.Event()
        self._refusals: set[str] = set()

    @property
    def is_degraded(self) -> bool:
        return self._is_away

    @property
    def waiting_entries(self) -> int:
        """Settlements and bookings that the store does not have yet."""
        return len(self._outbox)

    @property
    def dropped_entries(self) -> int:
        """Of them, those for which there was no room: they are missing in the ledger."""
        return self._outbox.dropped

    def reserve_at_once(
        self,
        team: str,  # noqa: ARG002
        reservation: str,  # noqa: ARG002
        charges: Sequence[Charge],  # noqa: ARG002
        lost: Draft,  # noqa: ARG002
    ) -> Granted | Refused | None:
        """None: the store is asked."""
        return None

    def seats(self, reservation: str, counted: Sequence[Counted]) -> Seats | None:  # noqa: ARG002
        """None: limits are counted there."""
        return None

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        """See `QuotaStore.reserve`."""
        self._register(team)
        is_uncertain = not self._is_away
        if is_uncertain:
            try:
                decision = await self._meters.reserve(team, reservation, charges, lost)
            except StoreAway as fault:
                self._went_away(fault.message)
            except asyncio.CancelledError:  # the caller left while it was asked
                self._drop(team, reservation)
                raise
            else:
                if isinstance(decision, Granted):
                    self._live[reservation] = Live(team, charges, lost)
                return decision
        return self._reserve_by_share(team, reservation, charges, lost, is_uncertain=is_uncertain)

    def settle(self, team: str, reservation: str, charges: Sequence[Charge], entry: Draft) -> None:
        """See `QuotaStore.settle`."""
        if self._live.pop(reservation, None) is not None:  # else that was done before
            self._unsure.discard(reservation)
            self._share.settle(reservation, charges)
            self._add(team, Operation("settle", reservation, charges, entry()))

    def book(self, team: str, entry: Draft) -> None:
        """See `QuotaStore.book`."""
        self._register(team)
        self._add(team, Operation("book", "", (), entry()))

    def doubt(self, fault: StoreUnfit) -> None:
        """The store was found to be unfit: without its data it counts as away, until *verify* finds some."""
        if fault.state in WITHOUT_DATA and self._verify is not None:
            self._doubted = fault
            self._went_away("it has no data")

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        """See `QuotaStore.spent`."""
        self._check_data()
        return await self._meters.spent(team, charges)

    async def give(self, team: str, charges: Sequence[Charge]) -> None:
        """See `QuotaStore.give`."""
        self._check_data()
        await self._meters.give(team, charges)

    async def run(self) -> None:
        """See `QuotaStore.run`. At the end, what the store does not take within *last_s* is lost, and logged."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send_always())
                tasks.create_task(self._tend_always())
                tasks.create_task(self._return_always())
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._last_s):
                    await self._send_last()
            if self._outbox:
                _log.error("%d settlements and bookings could not be carried out", len(self._outbox))

    def _reserve_by_share(
        self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft, *, is_uncertain: bool
    ) -> Granted | Refused:
        """*is_uncertain*: the store was asked, and may have granted it."""
        decision: Granted | Refused | None = None
        try:
            decision = self._share.reserve(team, reservation, charges, self._clock())
        finally:
            if is_uncertain and not isinstance(decision, Granted):
                self._drop(team, reservation)
        if isinstance(decision, Granted):
            self._live[reservation] = Live(team, charges, lost)
            self._unsure.add(reservation)
            if not self._is_away:  # it came back while this one waited in vain
                self._adopt()
        return decision

    def _register(self, team: str) -> None:
        if team not in self._registered:
            self._registered.add(team)
            self._unregistered.add(team)
            self._work.set()

    def _drop(self, team: str, reservation: str) -> None:
        self._add(team, Operation("drop", reservation, (), None))

    def _add(self, team: str, operation: Operation) -> None:
        dropped = self._outbox.dropped
        self._outbox.add(team, operation)
        if dropped == 0 < self._outbox.dropped:
            _log.error("settlements are lost: %d wait for the store, and there is room for no more", len(self._outbox))
        self._work.set()

    def _adopt(self) -> None:
        """Tell the store of what runs, and it may not know."""
        unsure, self._unsure = self._unsure, set()
        for reservation in unsure:
            live = self._live[reservation]
            self._add(live.team, Operation("adopt", reservation, live.charges, live.lost()))

    def _check_data(self) -> None:
        """Raise StoreUnfit where the store has lost what it counted."""
        if self._doubted is not None:
            raise StoreUnfit(self._doubted.message, state=self._doubted.state)

    # ---- the store goes and returns

    def _went_away(self, why: str) -> None:
        if not self._is_away:
            self._is_away = True
            self._lost.set()
            self._unsure.update(self._live)
            self._share.begin(self._live, self._clock())
            _log.error("the store of quotas is away, this gateway grants its share of them: %s", why)

    async def _return_always(self) -> None:
        while True:
            await self._lost.wait()
            pause_s = FIRST_LOOK_S
            while self._is_away:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, OPEN_S)
                with suppress(StoreAway):
                    await self._return()

    async def _return(self) -> None:
        """Charge it what was granted without it, tell it what it may have forgotten, and let it decide again."""
        if self._verify is not None:
            await self._verify()
            self._doubted = None
        await self._meters.check()
        self._outbox.reopen(self._clock())
        self._unregistered.update(self._outbox.teams())  # their names may be forgotten as well
        self._adopt()
        await self._send()
        await self._tend()
        self._adopt()
        if self._doubted is not None:  # it lost its data meanwhile
            return
        self._is_away = False
        self._lost.clear()
        self._work.set()
        _log.info("the store of quotas is there again")

    def _refused(self, team: str, fault: StoreRefuses) -> None:
        """Something of one team cannot be done: that waits, and is tried again."""
        if team not in self._refusals:
            self._refusals.add(team)
            _log.error("settlements and leases of team %s wait: %s", team, fault.message)
        asyncio.get_running_loop().call_later(OPEN_S, self._work.set)

    # ---- what nobody waits for

    async def _send_always(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            if not self._is_away:
                try:
                    await self._send()
                except StoreAway as fault:
                    self._went_away(fault.message)

    async def _send(self) -> None:
        """All that waits.

        Raises:
            StoreAway: it is away, and some of it waits on.
        """
        async with self._sending:
            if self._unregistered:
                teams, self._unregistered = self._unregistered, set()
                try:
                    await self._meters.register(teams, self._clock())
                except BaseException:  # at the end it is cancelled, and what is left is carried out after that
                    self._unregistered |= teams
                    raise
            await self._for_all(self._send_of, self._outbox.teams())

    async def _send_last(self) -> None:
        """All that waits, tried for as long as somebody waits for it: the store may be about to come back."""
        while True:
            try:
                await (self._return() if self._is_away else self._send())
            except StoreAway as fault:
                self._went_away(fault.message)
            if not self._outbox:
                return
            await asyncio.sleep(FIRST_LOOK_S)

    async def _send_of(self, team: str) -> None:
        while True:
            first, operations = self._outbox.first(team, BATCH)
            if not operations:
                return
            await self._meters.carry_out(team, first, operations)
            self._outbox.done(team, first + len(operations) - 1, self._clock())

    async def _tend_always(self) -> None:
        while True:
            if not self._is_away:
                try:
                    await self._tend()
                except StoreAway as fault:
                    self._went_away(fault.message)
            await asyncio.sleep(self._lease_s / 3)

    async def _tend(self) -> None:
        """Renew leases, and settle those of gateways that died, of all teams.

        Raises:
            StoreAway: it is away.
        """
        alive: dict[str, list[str]] = {}
        for reservation, live in self._live.items():
            alive.setdefault(live.team, []).append(reservation)
        self._outbox.forget(self._clock())
        self._registered = set(alive)  # others are registered again when they next reserve something
        if alive:
            await self._meters.register(alive, self._clock())
        teams = {*await self._meters.teams(self._clock()), *alive}
        await self._for_all(lambda team: self._tend_to(team, alive.get(team, [])), teams)

    async def _tend_to(self, team: str, alive: Sequence[str]) -> None:
        cursor = self._cursors.pop(team, 0)
        tended = await self._meters.tend(team, alive[:RENEWED], cursor=cursor)
        for i in range(RENEWED, len(alive), RENEWED):
            tended = await self._meters.tend(team, alive[i : i + RENEWED], cursor=tended.cursor)
        while tended.lost:
            tended = await self._meters.tend(team, (), cursor=tended.cursor)
        if tended.cursor:
            self._cursors[team] = tended.cursor

    async def _for_all(self, act: Callable[[str], Awaitable[None]], teams: Iterable[str]) -> None:
        """*act* on each, some at the same time. One that the store refuses keeps no other waiting.

        Raises:
            StoreAway: it is away.
        """
        faults: list[StoreAway] = []

        async def try_(team: str) -> None:
            async with self._at_once:
                if not faults:
                    try:
                        await act(team)
                        self._refusals.discard(team)
                    except StoreRefuses as fault:
                        self._refused(team, fault)
                    except StoreAway as fault:
                        faults.append(fault)

        async with asyncio.TaskGroup() as tasks:
            for team in teams:
                tasks.create_task(try_(team))
        if faults:
            raise faults[0]
