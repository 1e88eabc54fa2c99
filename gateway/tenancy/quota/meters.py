"""Meters of all limits of all teams, counted in memory. They form a state machine without a clock.

A *rate* limit is a token bucket. Its state is the time at which the bucket will be full again (the theoretical arrival
time of GCRA), so refilling needs no work. *period* and *concurrent* limits are counters with a maximum.

These invariants hold for any order of calls, as long as *now* never decreases:

1. A rate limit grants at most ``burst + amount / 60 * seconds`` units in any interval, not counting units that were
   returned. The one exception is a single request for more than the burst. A full bucket admits such a request, which
   leaves a debt.
2. A refusal changes nothing.
3. A reservation is settled once, by the first call of `settle`, `cancel` or `expire`.
4. Settling changes the period in which the units were reserved, and no later period.

A request can be counted in two ways. `reserve` takes a charge for each limit. `reserve_plan` takes a `PlanHold`, which
holds the few numbers from which all charges of a plan follow. With charges, a plan with five limits would create some
twenty objects per request. Both use the arithmetic of `Meter`. If `reserve_plan` cannot grant a request, it changes
nothing, and `reserve` must decide.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from gateway.tenancy.ledger.entry import Draft, Entry
from gateway.tenancy.quota.limit import (
    BOTH,
    DAY,
    MOST,
    NEVER,
    ONE,
    PROMPT,
    USD,
    Charge,
    Granted,
    Level,
    PlanLimit,
    Refused,
)
from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.scope import is_named_by_callers

SKEW_S: Final = 60.0
"""Clock difference in seconds that is tolerated between gateways. A new period can start at most this long before the
end of the current one. An earlier charge for another period comes from a gateway with a wrong calendar and counts in
the current period.
"""


MAX_LIMITS: Final = 20_000
"""Number of limits in use of one team beyond which no end users and sessions are added. A limit takes about 1 kB."""
CROWDED_WAIT_S: Final = 60.0
"""Seconds to wait if too many limits are in use. Without requests, a limit per minute is unused after a minute."""
RESWEEP_S: Final = 1.0
"""Minimum seconds between two searches for unused limits because of a crowded team, which cost several milliseconds."""


class MeterState(msgspec.Struct, frozen=True):
    """State of a rate limit or period limit that is kept across restarts."""

    team: str
    limit: str
    """Id of the limit, as in `Limit.id`."""
    value: float
    """Time at which the bucket of a rate limit is full, in seconds since 1970, or the used units of a period limit."""
    period: str
    """Name of the current period, or an empty string for a rate limit."""
    ends: float
    """Time after which the state can be dropped, because the bucket is full or the period is over, in seconds since
    1970.
    """


class ChargeHold:
    """Charges of a reservation that has not been settled yet."""

    __slots__ = ("charges", "lost", "meters", "team", "until")

    def __init__(
        self,
        team: str,
        charges: Sequence[Charge],
        meters: list[Meter],
        until: float,
        lost: Draft | None,
    ) -> None:
        self.team = team
        self.charges = charges
        self.meters = meters
        self.until = until
        """End of the reservation's lease in seconds since 1970."""
        self.lost = lost


class PlanMeter:
    """Limit of a plan, with the meter that counts it."""

    __slots__ = ("level", "limit", "meter", "period", "unit_s", "what")

    def __init__(self, plan_limit: PlanLimit, meter: Meter) -> None:
        self.limit = plan_limit.limit
        self.what = plan_limit.what
        self.period = plan_limit.period
        self.meter = meter
        self.unit_s = 60.0 / plan_limit.limit.amount
        """Seconds in which a rate limit regains one unit."""
        self.level = Level(0.0, 0.0)
        """State of the limit after the last decision."""


class PlanMeters:
    """Meters of all limits in a plan, looked up once."""

    __slots__ = ("budgets", "day", "day_left_s", "each", "granted", "month", "month_left_s")

    def __init__(self, limits: Sequence[PlanLimit], meters: Sequence[Meter]) -> None:
        """Create the list of meters. *meters* belong to *limits* and have the same order."""
        self.each = [PlanMeter(limit, meter) for limit, meter in zip(limits, meters, strict=True)]
        self.budgets = [each.meter for each in self.each if each.period != NEVER]
        self.granted = Granted(tuple([each.level for each in self.each]))
        """Answer to every grant. It is always the same object, and each decision overwrites the levels in it."""
        # The current periods. The caller sets them before each decision.
        self.day = self.month = ""
        self.day_left_s = self.month_left_s = 0.0

    def have_room(self, hold: "PlanHold", now: float) -> bool:
        """Return whether all units of *hold* can be granted. If one of the meters has been replaced, return False.

        *now* is in seconds since 1970. Takes about 50 ns per limit.
        """
        for each in self.each:
            meter, level = each.meter, each.level
            if meter.is_gone:
                return False
            if meter.limit is not each.limit:
                meter.use_limit(each.limit)
            if each.period == NEVER:
                reset_s = 0.0
            elif each.period == DAY:
                if meter.period != self.day:
                    return False
                reset_s = self.day_left_s
            else:
                if meter.period != self.month:
                    return False
                reset_s = self.month_left_s
            if not meter.has_room(hold.units(each.what), now):
                return False
            level.remaining = meter.left
            level.reset_s = meter.full_in_s if meter.is_rate else reset_s
        return True


class PlanHold:
    """Units that one request takes from the limits of its plan. Objects are compared by identity."""

    __slots__ = (
        "both",
        "completion",
        "is_held",
        "likely_usd",
        "meters",
        "most_both",
        "prompt",
        "until",
        "usd",
    )

    def __init__(self) -> None:
        self.meters: PlanMeters | None = None
        """Meters of the plan, or None if nothing is reserved or if the reservation was made with charges."""
        self.is_held = False
        """Whether the units are reserved and have not been settled yet."""
        # Units by what limits count, see `gateway.tenancy.quota.limit`.
        self.prompt = 0.0
        self.completion = 0.0
        self.both = 0.0
        self.most_both = 0.0
        self.usd = 0.0
        self.likely_usd = 0.0
        """US dollars to charge if the outcome is never known. For tokens, `both` is this amount."""
        self.until = 0.0
        """End of the reservation's lease in seconds since 1970."""

    def units(self, what: int) -> float:
        """Return the number of units that the request takes from a limit of the type *what*."""
        if what == ONE:
            return 1.0
        if what == BOTH:
            return self.both
        if what == USD:
            return self.usd
        if what == MOST:
            return self.most_both
        return self.prompt if what == PROMPT else self.completion

    def unlikely(self, what: int) -> float:
        """Return the part of `units` of a budget that is beyond the likely use."""
        return self.usd - self.likely_usd if what == USD else self.most_both - self.both

    def __call__(self) -> Entry | None:
        """Return the ledger entry to write if the request is never settled, so that a hold can be used as a `Draft`.
        Return None if there is nothing to write.
        """
        raise NotImplementedError


class Meters:
    """Meters of all limits of all teams. *now* arguments are in seconds since 1970. Amounts and bursts must be above 0.

    A call takes about 0.3 us per charge.
    """

    def __init__(self, *, alert: float = math.inf, max_limits: int = MAX_LIMITS) -> None:
        """Create an empty set of meters. New meters are added to `alerted` when their value exceeds *alert*. A team
        with *max_limits* meters gets no meters for further end users and sessions.
        """
        self._max_limits = max_limits
        self._swept_at = -math.inf
        self._alert = alert
        self._teams: dict[str, dict[str, Meter]] = {}
        self._held: dict[str, ChargeHold] = {}
        self._plans_held: dict[PlanHold, None] = {}
        self._restored: dict[tuple[str, str], MeterState] = {}
        self.alerted: list[Meter] = []
        """Meters whose value exceeds the threshold `alert`. The reader must empty this list."""

    def __len__(self) -> int:
        """Return the number of reservations that have not been settled yet."""
        return len(self._held) + len(self._plans_held)

    def reserve(
        self,
        team: str,
        reservation: str,
        charges: Sequence[Charge],
        now: float,
        *,
        until: float = math.inf,
        lost: Draft | None = None,
    ) -> Granted | Refused:
        """Reserve all *charges*, or nothing if a limit cannot grant one of them. Each charge must be for a different
        limit. `expire` uses *until* and *lost*.
        """
        meters = self._teams.get(team)
        if meters is not None and len(meters) >= self._max_limits:
            crowded = self._crowded(team, charges, now)
            if crowded is not None:
                return crowded
            meters = self._teams.get(team)
        if meters is None:
            meters = self._teams[team] = {}
        found, levels = [], []
        new: list[str] = []
        for charge in charges:
            limit, units = charge.limit, charge.units
            meter = meters.get(limit.id)
            if meter is None:
                new.append(limit.id)
            if meter is None or meter.period != charge.period:
                meter = self._current(meters, team, charge, now)
            if meter.limit is not limit:
                meter.use_limit(limit)
            if not meter.has_room(units, now):
                new += [each.limit.id for each in charges if each.limit.id not in meters]
                refusal = self._refusal(team, charges, now)
                self._drop_new(meters, new)
                return refusal
            levels.append(Level(meter.left, meter.full_in_s if meter.is_rate else charge.period_left_s))
            found.append(meter)
        # Equal lengths; strict would take twice as long.
        for meter, charge in zip(found, charges):  # noqa: B905
            if meter.grant(charge.units - charge.likely):
                self.alerted.append(meter)
        self._held[reservation] = ChargeHold(team, charges, found, until, lost)
        return Granted(tuple(levels))

    def reserve_plan(self, hold: PlanHold, now: float) -> bool:
        """Reserve all units of *hold*, or nothing. If `reserve` must decide, return False."""
        meters = hold.meters
        if meters is None or not meters.have_room(hold, now):
            return False
        for each in meters.each:
            if each.meter.grant(hold.unlikely(each.what) if each.period else 0.0):
                self.alerted.append(each.meter)
        hold.is_held = True
        self._plans_held[hold] = None
        return True

    def settle(self, reservation: str, charges: Sequence[Charge]) -> ChargeHold | None:
        """Replace the reserved units with *charges*, which must have the same limits in the same order. If the
        reservation is already settled, return None.
        """
        held = self._held.get(reservation)
        if held is None:
            return None
        del self._held[reservation]
        if len(charges) != len(held.charges):
            raise ValueError("a settlement must name the same limits as its reservation")
        # Equal lengths; strict would take twice as long.
        for meter, reserved, used in zip(held.meters, held.charges, charges):  # noqa: B905
            unit_s = 60.0 / reserved.limit.amount
            if meter.settle(reserved.units, used.units, reserved.units - reserved.likely, unit_s):
                self.alerted.append(meter)
        return held

    def settle_plan(
        self, hold: PlanHold, *, one: float, prompt: float, completion: float, both: float, usd: float
    ) -> bool:
        """Replace the reserved units with the given units. Return whether *hold* was not settled before."""
        meters = hold.meters
        if meters is None or not hold.is_held:
            return False
        hold.is_held = False
        del self._plans_held[hold]
        for each in meters.each:
            what = each.what
            if what == ONE:
                reserved, used = 1.0, one
            elif what == BOTH:
                reserved, used = hold.both, both
            elif what == USD:
                reserved, used = hold.usd, usd
            elif what == MOST:
                reserved, used = hold.most_both, both
            elif what == PROMPT:
                reserved, used = hold.prompt, prompt
            else:
                reserved, used = hold.completion, completion
            unlikely = hold.unlikely(what) if each.period else 0.0
            if each.meter.settle(reserved, used, unlikely, each.unit_s):
                self.alerted.append(each.meter)
        return True

    def cancel(self, reservation: str) -> ChargeHold | None:
        """Release all units that are reserved for *reservation*."""
        held = self._held.get(reservation)
        if held is None:
            return None
        return self.settle(reservation, [Charge(charge.limit, 0.0) for charge in held.charges])

    def cancel_plan(self, hold: PlanHold) -> None:
        """Release all units that are reserved for the reservation *hold*."""
        self.settle_plan(hold, one=0.0, prompt=0.0, completion=0.0, both=0.0, usd=0.0)

    def expire(self, now: float) -> list[ChargeHold]:
        """Settle each reservation whose lease has ended with its likely use. O(reservations)."""
        ended = [(reservation, held) for reservation, held in self._held.items() if held.until <= now]
        for reservation, held in ended:
            self.settle(reservation, [Charge(charge.limit, charge.likely) for charge in held.charges])
        return [held for _, held in ended]

    def expire_plans(self, now: float) -> list[PlanHold]:
        """Settle each plan reservation whose lease has ended with its likely use. O(plan reservations)."""
        ended = [hold for hold in self._plans_held if hold.until <= now]
        for each in ended:
            self.settle_plan(
                each, one=1.0, prompt=each.prompt, completion=each.completion, both=each.both, usd=each.likely_usd
            )
        return ended

    def spent(self, team: str, charges: Sequence[Charge], now: float) -> list[float]:
        """Return the used or reserved units of the period limits in *charges*. They can exceed the limits."""
        return [meter.value for meter in self._meters_of(team, charges, now)]

    def refund(self, team: str, charges: Sequence[Charge], now: float) -> list[Meter]:
        """Reduce the used units of period limits by *charges*, but not below 0. Return the meters of these limits."""
        meters = self._meters_of(team, charges, now)
        for meter, charge in zip(meters, charges, strict=True):
            meter.value = max(0.0, meter.value - charge.units)
        return meters

    def held(self, reservation: str) -> ChargeHold | None:
        return self._held.get(reservation)

    def states(self, now: float) -> Iterator[MeterState]:
        """Yield the meter states with which another process can continue by calling `restore`. Reservations are not
        included.
        """
        for meters in self._teams.values():
            for meter in meters.values():
                ends = meter.value if meter.is_rate else meter.ends
                if meter.limit.kind != "concurrent" and ends > now:
                    yield MeterState(meter.team, meter.limit.id, meter.value, meter.period, ends)
        yield from (state for state in self._restored.values() if state.ends > now)

    def restore(self, states: Iterable[MeterState]) -> None:
        """Continue from *states*. Call this before anything is counted."""
        self._restored.update({(state.team, state.limit): state for state in states})

    def forget(self, now: float) -> None:
        """Drop unused meters, so that removed teams and limits take up no memory."""
        live = {id(meter) for held in self._held.values() for meter in held.meters}
        live |= {id(each.meter) for hold in self._plans_held if hold.meters is not None for each in hold.meters.each}
        for team, meters in list(self._teams.items()):
            for limit, meter in list(meters.items()):
                is_idle = meter.value <= now if meter.is_rate else meter.ends <= now
                if is_idle and id(meter) not in live:
                    meter.is_gone = True
                    del meters[limit]
            if not meters:
                del self._teams[team]
        self._restored = {place: state for place, state in self._restored.items() if state.ends > now}

    def _meters_of(self, team: str, charges: Sequence[Charge], now: float) -> list[Meter]:
        meters = self._teams.setdefault(team, {})
        found = [self._current(meters, team, charge, now) for charge in charges]
        for meter, charge in zip(found, charges, strict=True):
            meter.use_limit(charge.limit)
        return found

    def _current(self, meters: dict[str, Meter], team: str, charge: Charge, now: float) -> Meter:
        """Return the meter that counts *charge*. If the period of the existing meter is over, create a new meter."""
        id_ = charge.limit.id
        meter = meters.get(id_)
        if meter is None:
            meter = meters[id_] = self._first(team, charge, now)
        elif meter.period != charge.period and meter.ends <= now + SKEW_S:
            meter.is_past = meter.is_gone = True
            meter = meters[id_] = self._new(team, charge, now)
        return meter

    def _first(self, team: str, charge: Charge, now: float) -> Meter:
        """Create the first meter for the limit of *charge*. If its stored state is still valid, use it."""
        state = self._restored.pop((team, charge.limit.id), None)
        meter = self._new(team, charge, now)
        if state is None or state.ends <= now or (state.period == "") != meter.is_rate:
            return meter
        if state.period != charge.period and state.ends <= now + SKEW_S:
            return meter
        meter.value = state.value
        meter.period = state.period
        meter.ends = state.ends
        if self._alert < state.value:
            meter.alert = meter.checkpoint = state.value
        return meter

    def _new(self, team: str, charge: Charge, now: float) -> Meter:
        meter = Meter(team, charge.limit, self._alert)
        meter.period = charge.period
        if charge.limit.kind == "period":
            meter.ends = now + charge.period_left_s
        return meter

    def _refusal(self, team: str, charges: Sequence[Charge], now: float) -> Refused:
        meters = self._meters_of(team, charges, now)
        waits = [meter.wait_s(charge, now) for meter, charge in zip(meters, charges, strict=True)]
        wait_s = max(waits)
        levels = tuple([meter.level(charge, now) for meter, charge in zip(meters, charges, strict=True)])
        return Refused(waits.index(wait_s), wait_s, levels)

    def _crowded(self, team: str, charges: Sequence[Charge], now: float) -> Refused | None:
        """Return a refusal if *charges* need a meter of a new end user or session, and the team has too many meters."""
        if self._new_name(team, charges) is None:
            return None
        if not now - RESWEEP_S < self._swept_at <= now:
            self._swept_at = now
            self.forget(now)
        place, meters = self._new_name(team, charges), self._teams.get(team, {})
        if place is None or len(meters) < self._max_limits:
            return None
        levels = []
        for charge in charges:
            meter = meters.get(charge.limit.id)
            if meter is None:
                meter = Meter(team, charge.limit, self._alert)
            levels.append(meter.level(charge, now))
        return Refused(place, CROWDED_WAIT_S, tuple(levels), is_crowded=True)

    def _drop_new(self, meters: dict[str, Meter], new: Sequence[str]) -> None:
        """Drop those of the *new* meters that belong to end users and sessions, because nothing was charged to them.
        Otherwise, refused requests could fill the memory.
        """
        for id_ in new:
            meter = meters[id_]
            if meter.value == 0.0 and is_named_by_callers(id_):
                meter.is_gone = True
                del meters[id_]

    def _new_name(self, team: str, charges: Sequence[Charge]) -> int | None:
        """Return the place of the first of *charges* for an end user or session without a meter, or None."""
        meters = self._teams.get(team, {})
        for place, charge in enumerate(charges):
            id_ = charge.limit.id
            if id_ not in meters and is_named_by_callers(id_) and (team, id_) not in self._restored:
                return place
        return None
