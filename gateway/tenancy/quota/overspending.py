"""End the streams of teams that have exceeded a budget by more than the tolerance.

A budget reserves the longest possible answer, so few streams are ended. This happens to requests that took the last
part of a small budget, with engines that generate more tokens than configured, and after a budget was lowered.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from gateway.protocol.errors import GatewayError, QuotaSpent, StoreUnavailable
from gateway.tenancy.quota.limit import USD, Charge
from gateway.tenancy.quota.plan import Tokens
from gateway.tenancy.quota.quota import Reservation, number
from gateway.tenancy.quota.quota_store import QuotaStore
from gateway.tenancy.quota.scope import Scoped

CHECK_S = 0.5
"""Seconds between two checks of the open streams."""


class Stream(Protocol):
    """Streamed answer that can be ended early."""

    stopped: GatewayError | None
    """Error that the caller gets in place of the next token, which ends the answer, or None while the stream can
    continue.
    """

    @property
    def events(self) -> int:
        """Number of tokens that were sent to the caller, as far as this is known."""
        ...


class Overspending:
    """Open streams of all teams with budgets in the gateway."""

    def __init__(self, store: QuotaStore, *, tolerance: float, clock: Callable[[], float]) -> None:
        """Create the collection. *tolerance* is the share of a budget by which it can be exceeded. *clock* returns the
        time in seconds since 1970.
        """
        self._store = store
        self._tolerance = tolerance
        self._clock = clock
        self._open: dict[str, dict[Stream, Reservation]] = {}

    def begin(self, stream: Stream, reservation: Reservation) -> None:
        """Watch *stream* until `end` is called, if *reservation* counts against a budget."""
        if reservation.plan.counts_most:
            self._open.setdefault(reservation.team, {})[stream] = reservation

    def end(self, stream: Stream, team: str) -> None:
        """Stop watching *stream*. If it is not watched, this has no effect."""
        streams = self._open.get(team)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._open[team]

    async def run(self) -> None:
        """Check the budgets of all teams periodically until canceled."""
        while True:
            await asyncio.sleep(CHECK_S)
            for team in list(self._open):
                with suppress(StoreUnavailable):  # the next check finds out
                    await self.check(team)

    async def check(self, team: str) -> None:
        """Stop the streams of *team* if any budget is exceeded by more than the tolerance.

        Raises:
            StoreUnavailable: if the store cannot report the use of the budgets.
        """
        streams = dict(self._open.get(team, {}))
        now = self._clock()
        budgets: dict[str, tuple[Scoped, Charge]] = {}
        for reservation in streams.values():
            plan = reservation.plan
            for scoped, charge in zip(plan.scoped, plan.charges(Tokens(0.0, 0.0, 0.0), 0.0, now), strict=True):
                if scoped.limit.kind == "period":
                    budgets.setdefault(scoped.limit.id, (scoped, charge))
        spent = await self._store.spent(team, [charge for _, charge in budgets.values()])
        for (scoped, _), used in zip(budgets.values(), spent, strict=True):
            self._stop(streams, scoped, used)

    def _stop(self, streams: dict[Stream, Reservation], scoped: Scoped, spent: float) -> None:
        """Stop the streams that the budget *scoped* no longer covers. *spent* units of this budget are used or
        reserved.
        """
        limit, over = scoped.limit, {}
        for stream, reservation in streams.items():
            place = reservation.plan.place_of(limit.id)
            if place is not None:
                longer = max(0.0, stream.events - reservation.most_completion)
                is_usd = reservation.plan.plan_limits[place].what == USD
                over[stream] = reservation.cost_of(longer) if is_usd else longer
        most = limit.amount * (1.0 + self._tolerance)
        if spent + sum(over.values()) <= most:
            return
        for stream, units in over.items():
            if (units or spent > most) and stream.stopped is None:
                stream.stopped = QuotaSpent(
                    f"The budget of {scoped.text} is spent: Limit {number(limit.amount)}, "
                    f"Used {number(spent + sum(over.values()))}. The answer ends here.",
                    refused_by=scoped.label,
                )
