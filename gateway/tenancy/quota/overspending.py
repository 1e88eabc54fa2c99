"""Stops streams of teams whose budgets are exceeded by more than the tolerance.

A budget reserves the longest possible answer, so this stops few streams: requests that took the rest of a small budget,
engines that generate more than the settings say, and budgets that were lowered.
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
"""Time between two looks at the open streams."""


class Stream(Protocol):
    """A streamed answer."""

    stopped: GatewayError | None
    """Error that its caller gets instead of the next token. The answer ends there."""

    @property
    def events(self) -> int:
        """Tokens that were passed on, as far as known."""
        ...


class Overspending:
    """The open streams of teams with budgets, through this gateway."""

    def __init__(self, store: QuotaStore, *, tolerance: float, clock: Callable[[], float]) -> None:
        """*tolerance* is the share of a budget by which it may be exceeded. *clock* returns seconds since 1970."""
        self._store = store
        self._tolerance = tolerance
        self._clock = clock
        self._open: dict[str, dict[Stream, Reservation]] = {}

    def begin(self, stream: Stream, reservation: Reservation) -> None:
        """Watch *stream* until `end`, if it meets a budget."""
        if reservation.plan.counts_most:
            self._open.setdefault(reservation.team, {})[stream] = reservation

    def end(self, stream: Stream, team: str) -> None:
        """Stop watching *stream*. No effect if it is not watched."""
        streams = self._open.get(team)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._open[team]

    async def run(self) -> None:
        """Check all teams again and again, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            for team in list(self._open):
                with suppress(StoreUnavailable):  # the next check finds out
                    await self.check(team)

    async def check(self, team: str) -> None:
        """Stop the streams of *team* that an exceeded budget does not pay for.

        Raises:
            StoreUnavailable: the use of budgets is not known.
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
        """*spent* of the budget *scoped* is used or reserved."""
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
