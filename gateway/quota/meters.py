"""How limits are counted: a state machine in memory, without a clock.

A *rate* is a token bucket, kept as the moment at which it will be full again (GCRA's theoretical arrival time): one
number, and time refills it by itself. A *period* and what is *concurrent* are counters with a ceiling.

What holds, for any order of calls and any times that do not go back:

1. A rate grants no more than ``burst + amount / 60 * seconds`` over any span, refunds in it being taken off, but for
   one request that alone takes more than the burst: that passes a full bucket, and leaves a debt.
2. What is refused changes nothing.
3. A reservation is settled once: by `settle`, by `cancel`, or by `expire`, whichever comes first.
4. What a period's reservations are settled to changes that period and no later one.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from gateway.ledger.entry import Draft
from gateway.quota.limit import Charge, Granted, Level, Refused
from gateway.quota.meter import Meter
from gateway.quota.seats import BOTH, MOST, ONE, PROMPT, USD, Taken

SKEW_S: Final = 60.0
"""How far ahead of the store's clock that of a gateway may be: a new period begins no sooner before the end of the old
one. Another name sooner than that is a gateway whose calendar is behind or wrong, and counts in the current period."""


class MeterState(msgspec.Struct, frozen=True):
    """What outlives a process, of a rate or a period."""

    team: str
    limit: str
    """`Limit.id`."""
    value: float
    """rate: when the bucket is full, seconds since 1970. period: units used."""
    period: str
    """Empty: a rate."""
    ends: float
    """From when on it says nothing: the bucket is full, or the period is over. Seconds since 1970."""


class Held:
    """A reservation that is not settled yet."""

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
        """The end of its lease, seconds since 1970."""
        self.lost = lost


class Meters:
    """All limits of all teams. *now* is seconds since 1970; amounts and bursts are above 0.

    A call costs about 0.3 us for each charge.
    """

    def __init__(self, *, alert: float = math.inf) -> None:
        """Meters that begin stand in `alerted` once their value is above *alert*."""
        self._alert = alert
        self._teams: dict[str, dict[str, Meter]] = {}
        self._held: dict[str, Held] = {}
        self._taken: dict[Taken, None] = {}
        self._restored: dict[tuple[str, str], MeterState] = {}
        self.alerted: list[Meter] = []
        """Whoever looks at it empties it."""

    def __len__(self) -> int:
        """Reservations that are not settled yet."""
        return len(self._held) + len(self._taken)

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
        """Take all of *charges*, of different limits, or nothing; *until* and *lost* are for `expire`."""
        meters = self._teams.get(team)
        if meters is None:
            meters = self._teams[team] = {}
        found, levels = [], []
        for charge in charges:
            limit, units = charge.limit, charge.units
            meter = meters.get(limit.id)
            if meter is None or meter.period != charge.period:
                meter = self._turned(meters, team, charge, now)
            if meter.limit is not limit:
                meter.take(limit)
            if not meter.has_room(units, now):
                return self._refusal(team, charges, now)
            levels.append(Level(meter.left, meter.full_in_s if meter.is_rate else charge.period_left_s))
            found.append(meter)
        # Of one length; strict would take twice as long.
        for meter, charge in zip(found, charges):  # noqa: B905
            value = meter.value = meter.granted
            meter.unlikely += charge.units - charge.likely
            if value > meter.alert:
                self.alerted.append(meter)
        self._held[reservation] = Held(team, charges, found, until, lost)
        return Granted(tuple(levels))

    def take(self, taken: Taken, now: float) -> bool:
        """As `reserve`, by numbers: all that *taken* says of its seats. False: `reserve` has to say why not."""
        seats = taken.seats
        if seats is None or not seats.have_room(taken, now):
            return False
        for seat in seats.each:
            meter = seat.meter
            value = meter.value = meter.granted
            if seat.period:
                meter.unlikely += taken.unlikely(seat.what)
            if value > meter.alert:
                self.alerted.append(meter)
        taken.is_held = True
        self._taken[taken] = None
        return True

    def give_back(self, taken: Taken, *, one: float, prompt: float, completion: float, both: float, usd: float) -> bool:
        """As `settle`, of what was taken by numbers: these were used. False: that was done before."""
        seats = taken.seats
        if seats is None or not taken.is_held:
            return False
        taken.is_held = False
        del self._taken[taken]
        for seat in seats.each:
            meter, what = seat.meter, seat.what
            if meter.is_concurrent:
                meter.value -= 1.0
                continue
            if what == BOTH:
                more = both - taken.both
            elif what == MOST:
                more = both - taken.most_both
            elif what == USD:
                more = usd - taken.usd
            elif what == ONE:
                more = one - 1.0
            else:
                more = prompt - taken.prompt if what == PROMPT else completion - taken.completion
            if seat.period:
                meter.unlikely -= taken.unlikely(what)
            value = meter.value = meter.value + (more * seat.unit_s if meter.is_rate else more)
            if value > meter.alert:
                self.alerted.append(meter)
        return True

    def expire_taken(self, now: float) -> list[Taken]:
        """As `expire`, of what was taken by numbers."""
        ended = [taken for taken in self._taken if taken.until <= now]
        for each in ended:
            self.give_back(
                each, one=1.0, prompt=each.prompt, completion=each.completion, both=each.both, usd=each.likely_usd
            )
        return ended

    def settle(self, reservation: str, charges: Sequence[Charge]) -> Held | None:
        """Replace what was reserved by *charges*, the same limits in the same order; None if that was done before."""
        held = self._held.get(reservation)
        if held is None:
            return None
        del self._held[reservation]
        if len(charges) != len(held.charges):
            raise ValueError("what was used is not of the limits of which it was reserved")
        # Of one length; strict would take twice as long.
        for meter, reserved, used in zip(held.meters, held.charges, charges):  # noqa: B905
            if meter.is_concurrent:
                meter.value -= reserved.units
                continue
            meter.unlikely -= reserved.units - reserved.likely
            more = used.units - reserved.units
            value = meter.value + (more * (60.0 / reserved.limit.amount) if meter.is_rate else more)
            meter.value = value
            if value > meter.alert:
                self.alerted.append(meter)
        return held

    def cancel(self, reservation: str) -> Held | None:
        """Give back all that was reserved."""
        held = self._held.get(reservation)
        if held is None:
            return None
        return self.settle(reservation, [Charge(charge.limit, 0.0) for charge in held.charges])

    def expire(self, now: float) -> list[Held]:
        """Settle at what was likely those whose lease has ended. Costs a look at every reservation."""
        ended = [(reservation, held) for reservation, held in self._held.items() if held.until <= now]
        for reservation, held in ended:
            self.settle(reservation, [Charge(charge.limit, charge.likely) for charge in held.charges])
        return [held for _, held in ended]

    def charge(self, team: str, charges: Sequence[Charge], now: float) -> None:
        """Count *charges*, room or no room: what was granted elsewhere. Concurrent ones are over and count nothing."""
        counted = [charge for charge in charges if charge.limit.kind != "concurrent"]
        for meter, charge in zip(self._meters_of(team, counted, now), counted, strict=True):
            if meter.is_rate:
                meter.value = max(meter.value, now) + charge.units * 60.0 / charge.limit.amount
            else:
                meter.value += charge.units
            if meter.value > meter.alert:
                self.alerted.append(meter)

    def levels(self, team: str, charges: Sequence[Charge], now: float) -> tuple[Level, ...]:
        """How the limits of *charges* stand."""
        meters = self._meters_of(team, charges, now)
        return tuple([meter.level(charge, now) for meter, charge in zip(meters, charges, strict=True)])

    def spent(self, team: str, charges: Sequence[Charge], now: float) -> list[float]:
        """What is used or reserved of the limits of *charges*, all of periods, beyond them too."""
        return [meter.value for meter in self._meters_of(team, charges, now)]

    def give(self, team: str, charges: Sequence[Charge], now: float) -> list[Meter]:
        """Have so much less be used of limits of periods; the meters that count them."""
        meters = self._meters_of(team, charges, now)
        for meter, charge in zip(meters, charges, strict=True):
            meter.value = max(0.0, meter.value - charge.units)
        return meters

    def held(self, reservation: str) -> Held | None:
        return self._held.get(reservation)

    def states(self, now: float) -> Iterator[MeterState]:
        """What would have to be restored for things to go on as they are, but for reservations."""
        for meters in self._teams.values():
            for meter in meters.values():
                ends = meter.value if meter.is_rate else meter.ends
                if meter.limit.kind != "concurrent" and ends > now:
                    yield MeterState(meter.team, meter.limit.id, meter.value, meter.period, ends)
        yield from (state for state in self._restored.values() if state.ends > now)

    def restore(self, states: Iterable[MeterState]) -> None:
        """Go on from *states*; to be called before anything is counted."""
        self._restored.update({(state.team, state.limit): state for state in states})

    def forget(self, now: float) -> None:
        """Drop what says nothing any more, so that teams and limits that left take no memory."""
        live = {id(meter) for held in self._held.values() for meter in held.meters}
        live |= {id(seat.meter) for taken in self._taken if taken.seats is not None for seat in taken.seats.each}
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
        found = [self._turned(meters, team, charge, now) for charge in charges]
        for meter, charge in zip(found, charges, strict=True):
            meter.take(charge.limit)
        return found

    def _turned(self, meters: dict[str, Meter], team: str, charge: Charge, now: float) -> Meter:
        """The meter of the limit of *charge*: another one if its period is over, a first one if there is none."""
        id_ = charge.limit.id
        meter = meters.get(id_)
        if meter is None:
            meter = meters[id_] = self._begun(team, charge, now)
        elif meter.period != charge.period and meter.ends <= now + SKEW_S:
            meter.is_past = meter.is_gone = True
            meter = meters[id_] = self._new(team, charge, now)
        return meter

    def _begun(self, team: str, charge: Charge, now: float) -> Meter:
        """A meter for the limit of *charge*, which had none: as it was left, if that still says anything."""
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
            meter.alert = meter.mark = state.value
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
