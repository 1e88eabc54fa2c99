"""All limits of all teams, counted in memory: a state machine without a clock.

A *rate* is a token bucket, kept as the moment at which it will be full again (the theoretical arrival time of GCRA):
one number, which time refills by itself. A *period* and a *concurrent* limit are counters with a ceiling.

Invariants, for any order of calls and any times that do not go back:

1. A rate grants at most ``burst + amount / 60 * seconds`` over any span, less its refunds. The one exception is a
   request that alone takes more than the burst: it passes a full bucket and leaves a debt.
2. A refusal changes nothing.
3. A reservation is settled once: by `settle`, `cancel` or `expire`, whichever comes first.
4. Settling changes the period in which the units were reserved, and no later one.

A request can be counted in two forms. `reserve` takes a charge for each limit. `reserve_plan` takes a `PlanHold`, the
few numbers that the charges of a whole plan follow from: five limits would cost some twenty objects per request. Both
use the arithmetic of `Meter`. Where `reserve_plan` cannot grant, it changes nothing, and `reserve` has to decide.
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

SKEW_S: Final = 60.0
"""Tolerated clock difference: a new period starts at most this long before the end of the current one. An earlier
charge of another period comes from a gateway with a wrong calendar, and counts in the current period."""


class MeterState(msgspec.Struct, frozen=True):
    """State of a rate or a period that outlives the process."""

    team: str
    limit: str
    """`Limit.id`."""
    value: float
    """rate: time at which the bucket is full, seconds since 1970. period: units used."""
    period: str
    """Empty for a rate."""
    ends: float
    """Time from which the state is void, because the bucket is full or the period is over. Seconds since 1970."""


class ChargeHold:
    """Charges of a reservation that is not settled yet."""

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
        """End of its lease, seconds since 1970."""
        self.lost = lost


class PlanMeter:
    """One limit of a plan, and the meter that counts it."""

    __slots__ = ("level", "limit", "meter", "period", "unit_s", "what")

    def __init__(self, plan_limit: PlanLimit, meter: Meter) -> None:
        self.limit = plan_limit.limit
        self.what = plan_limit.what
        self.period = plan_limit.period
        self.meter = meter
        self.unit_s = 60.0 / plan_limit.limit.amount
        """rate: time in which one unit comes back."""
        self.level = Level(0.0, 0.0)
        """State after the last decision."""


class PlanMeters:
    """The meters of all limits of one plan, looked up once."""

    __slots__ = ("budgets", "day", "day_left_s", "each", "granted", "month", "month_left_s")

    def __init__(self, limits: Sequence[PlanLimit], meters: Sequence[Meter]) -> None:
        """*meters* are those of *limits*, in the same order."""
        self.each = [PlanMeter(limit, meter) for limit, meter in zip(limits, meters, strict=True)]
        self.budgets = [each.meter for each in self.each if each.period != NEVER]
        self.granted = Granted(tuple([each.level for each in self.each]))
        """Answer to every grant: the same object each time, with levels that are overwritten."""
        # The current periods. The caller sets them before each decision.
        self.day = self.month = ""
        self.day_left_s = self.month_left_s = 0.0

    def have_room(self, hold: "PlanHold", now: float) -> bool:
        """Return whether all units of *hold* can be granted. False as well if another meter counts by now.

        *now* is seconds since 1970. About 50 ns for each limit.
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
    """Units that one request takes of the limits of its plan. Equal to itself only."""

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
        """None: not reserved, or reserved by charges."""
        self.is_held = False
        """Reserved and not settled yet."""
        # Units by what limits count, see `gateway.tenancy.quota.limit`.
        self.prompt = 0.0
        self.completion = 0.0
        self.both = 0.0
        self.most_both = 0.0
        self.usd = 0.0
        self.likely_usd = 0.0
        """US dollars charged if the outcome is never known. The same for tokens is `both`."""
        self.until = 0.0
        """End of its lease, seconds since 1970."""

    def units(self, what: int) -> float:
        """Return the units that a limit takes which counts *what*."""
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

    def __call__(self) -> Entry:
        """Return the entry to book if it is never settled: a hold is a `Draft`."""
        raise NotImplementedError


class Meters:
    """All limits of all teams. *now* is seconds since 1970; amounts and bursts are above 0.

    A call costs about 0.3 us for each charge.
    """

    def __init__(self, *, alert: float = math.inf) -> None:
        """New meters are listed in `alerted` once their value exceeds *alert*."""
        self._alert = alert
        self._teams: dict[str, dict[str, Meter]] = {}
        self._held: dict[str, ChargeHold] = {}
        self._plans_held: dict[PlanHold, None] = {}
        self._restored: dict[tuple[str, str], MeterState] = {}
        self.alerted: list[Meter] = []
        """Meters whose value exceeds their `alert`. The reader empties the list."""

    def __len__(self) -> int:
        """Return the number of reservations that are not settled yet."""
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
        """Reserve all *charges*, each of a different limit, or none; *until* and *lost* are for `expire`."""
        meters = self._teams.get(team)
        if meters is None:
            meters = self._teams[team] = {}
        found, levels = [], []
        for charge in charges:
            limit, units = charge.limit, charge.units
            meter = meters.get(limit.id)
            if meter is None or meter.period != charge.period:
                meter = self._current(meters, team, charge, now)
            if meter.limit is not limit:
                meter.use_limit(limit)
            if not meter.has_room(units, now):
                return self._refusal(team, charges, now)
            levels.append(Level(meter.left, meter.full_in_s if meter.is_rate else charge.period_left_s))
            found.append(meter)
        # Equal lengths; strict would take twice as long.
        for meter, charge in zip(found, charges):  # noqa: B905
            if meter.grant(charge.units - charge.likely):
                self.alerted.append(meter)
        self._held[reservation] = ChargeHold(team, charges, found, until, lost)
        return Granted(tuple(levels))

    def reserve_plan(self, hold: PlanHold, now: float) -> bool:
        """Reserve all units of *hold*, or none. False: `reserve` must decide."""
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
        """Replace what was reserved by *charges*: the same limits in the same order. None: it is settled already."""
        held = self._held.get(reservation)
        if held is None:
            return None
        del self._held[reservation]
        if len(charges) != len(held.charges):
            raise ValueError("settled charges must name the limits that were reserved")
        # Equal lengths; strict would take twice as long.
        for meter, reserved, used in zip(held.meters, held.charges, charges):  # noqa: B905
            unit_s = 60.0 / reserved.limit.amount
            if meter.settle(reserved.units, used.units, reserved.units - reserved.likely, unit_s):
                self.alerted.append(meter)
        return held

    def settle_plan(
        self, hold: PlanHold, *, one: float, prompt: float, completion: float, both: float, usd: float
    ) -> bool:
        """Replace what was reserved by these units. False: it is settled already."""
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
        """Release everything that was reserved."""
        held = self._held.get(reservation)
        if held is None:
            return None
        return self.settle(reservation, [Charge(charge.limit, 0.0) for charge in held.charges])

    def cancel_plan(self, hold: PlanHold) -> None:
        """Release everything that was reserved."""
        self.settle_plan(hold, one=0.0, prompt=0.0, completion=0.0, both=0.0, usd=0.0)

    def expire(self, now: float) -> list[ChargeHold]:
        """Settle the reservations whose lease has ended at their likely use. Looks at every reservation."""
        ended = [(reservation, held) for reservation, held in self._held.items() if held.until <= now]
        for reservation, held in ended:
            self.settle(reservation, [Charge(charge.limit, charge.likely) for charge in held.charges])
        return [held for _, held in ended]

    def expire_plans(self, now: float) -> list[PlanHold]:
        """Do the same for the reservations of `reserve_plan`."""
        ended = [hold for hold in self._plans_held if hold.until <= now]
        for each in ended:
            self.settle_plan(
                each, one=1.0, prompt=each.prompt, completion=each.completion, both=each.both, usd=each.likely_usd
            )
        return ended

    def spent(self, team: str, charges: Sequence[Charge], now: float) -> list[float]:
        """Return the units used or reserved of the limits of *charges*, all of periods; may exceed the limits."""
        return [meter.value for meter in self._meters_of(team, charges, now)]

    def refund(self, team: str, charges: Sequence[Charge], now: float) -> list[Meter]:
        """Reduce what is used of limits of periods by *charges*, at most to 0; return their meters."""
        meters = self._meters_of(team, charges, now)
        for meter, charge in zip(meters, charges, strict=True):
            meter.value = max(0.0, meter.value - charge.units)
        return meters

    def held(self, reservation: str) -> ChargeHold | None:
        return self._held.get(reservation)

    def states(self, now: float) -> Iterator[MeterState]:
        """Return what `restore` needs in another process to continue, without reservations."""
        for meters in self._teams.values():
            for meter in meters.values():
                ends = meter.value if meter.is_rate else meter.ends
                if meter.limit.kind != "concurrent" and ends > now:
                    yield MeterState(meter.team, meter.limit.id, meter.value, meter.period, ends)
        yield from (state for state in self._restored.values() if state.ends > now)

    def restore(self, states: Iterable[MeterState]) -> None:
        """Continue from *states*. To be called before anything is counted."""
        self._restored.update({(state.team, state.limit): state for state in states})

    def forget(self, now: float) -> None:
        """Drop idle meters, so that teams and limits that left take no memory."""
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
        """Return the meter that counts *charge*: a new one if the period of the old is over."""
        id_ = charge.limit.id
        meter = meters.get(id_)
        if meter is None:
            meter = meters[id_] = self._first(team, charge, now)
        elif meter.period != charge.period and meter.ends <= now + SKEW_S:
            meter.is_past = meter.is_gone = True
            meter = meters[id_] = self._new(team, charge, now)
        return meter

    def _first(self, team: str, charge: Charge, now: float) -> Meter:
        """Return a meter for the limit of *charge*, which had none: restored if its state is still valid."""
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
