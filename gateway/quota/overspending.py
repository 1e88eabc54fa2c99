"""Stops streams of teams whose budgets are spent beyond what is tolerated.

A budget reserves the longest answer that is possible, so hardly any stream comes here: that of a request that took what
was left of a small budget, of an engine that generates more than the settings say, or of a budget that was lowered.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from gateway.errors import GatewayError, QuotaSpent, StoreAway
from gateway.quota.limit import Charge
from gateway.quota.plan import Tokens
from gateway.quota.quota import Reservation, number
from gateway.quota.quota_store import QuotaStore
from gateway.quota.scope import Scoped
from gateway.quota.seats import USD

CHECK_S = 0.5
"""Between two looks at the streams that are open."""


class Stream(Protocol):
    """An answer on its way."""

    stopped: GatewayError | None
    """What its caller is told when it next comes to a token: it ends there."""

    @property
    def events(self) -> int:
        """Tokens that were passed on, as far as they can be told."""
        ...


class Overspending:
    """The open streams of teams that have budgets, through this gateway."""

    def __init__(self, store: QuotaStore, *, tolerance: float, clock: Callable[[], float]) -> None:
        """*tolerance* is the share of a budget by which it may be passed. *clock* gives seconds since 1970."""
        self._store = store
        self._tolerance = tolerance
        self._clock = clock
        self._open: dict[str, dict[Stream, Reservation]] = {}

    def begin(self, stream: Stream, reservation: Reservation) -> None:
        """Watch *stream* until `end`, if it meets a budget."""
        if reservation.plan.counts_most:
            self._open.setdefault(reservation.team, {})[stream] = reservation

    def end(self, stream: Stream, team: str) -> None:
        """It is over. Of no effect on one that was not watched."""
        streams = self._open.get(team)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._open[team]

    async def run(self) -> None:
        """Look at all of them, again and again, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            for team in list(self._open):
                with suppress(StoreAway):  # what it says is looked at the next time
                    await self.check(team)

    async def check(self, team: str) -> None:
        """Stop those of *team* that a spent budget does not pay for.

        Raises:
            StoreAway: how budgets stand is not known.
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
        """*spent* of the budget *scoped* is what was used and what is reserved."""
        limit, over = scoped.limit, {}
        for stream, reservation in streams.items():
            place = reservation.plan.place_of(limit.id)
            if place is not None:
                longer = max(0.0, stream.events - reservation.most_completion)
                over[stream] = reservation.cost_of(longer) if reservation.plan.counted[place].what == USD else longer
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
