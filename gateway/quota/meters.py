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
from gateway.quota.limit import Charge, Granted, Level, Limit, Refused

SLACK_S: Final = 1e-6
"""A bucket that is full but for this is full: seconds since 1970 have no finer digits in a double."""
SLACK_UNITS: Final = 1e-9
"""The same for sums: a nano-dollar."""
SKEW_S: Final = 60.0
"""How far ahead of the store's clock that of a gateway may be: a new period begins no sooner before the end of the old
one. Another name sooner than that is a gateway whose calendar is behind or wrong, and counts in the current period."""
CONCURRENT_WAIT_S = 1.0
"""When a request ends cannot be known; asking once a second harms nobody."""


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


class Meter:
    """How one limit stands."""

    __slots__ = (
        "alert",
        "amount",
        "burst",
        "ends",
        "granted",
        "is_concurrent",
        "is_past",
        "is_rate",
        "limit",
        "mark",
        "period",
        "team",
        "unit_s",
        "value",
    )

    def __init__(self, team: str, limit: Limit, alert: float) -> None:
        self.team = team
        self.is_rate = limit.kind == "rate"
        self.is_concurrent = limit.kind == "concurrent"
        self.take(limit)
        self.value = 0.0
        """As `MeterState`; concurrent: how many there are."""
        self.granted = 0.0
        """What *value* becomes if all other limits of a request have room as well."""
        self.period = ""
        self.ends = 0.0
        self.is_past = False
        """Another took its place: its period is over."""
        self.alert = math.inf if self.is_concurrent else alert
        """Once *value* is above, the meter stands in `Meters.alerted`: for whoever keeps a copy."""
        self.mark = self.alert
        """What the copy says, for its keeper."""

    def take(self, limit: Limit) -> None:
        """Have *limit* from now on: of the same kind, but it may give more or less."""
        self.limit = limit
        self.amount = limit.amount
        self.burst = limit.burst
        self.unit_s = 60.0 / limit.amount
        """rate: in which one unit comes back."""

    def room_s(self, now: float) -> float:
        """rate: how much of the burst is there, in seconds of refill; negative: a debt beyond it."""
        burst_s = self.limit.burst * 60.0 / self.limit.amount
        return burst_s if self.value <= now else burst_s - (self.value - now)

    def wait_s(self, charge: Charge, now: float) -> float:
        """Until *charge* would be granted if nothing else happened; 0: now; infinite: never."""
        units, limit = charge.units, self.limit
        if units <= 0.0:
            return 0.0
        if units > limit.amount + SLACK_UNITS:
            return math.inf
        if self.is_rate:
            lacking_s = min(units, limit.burst) * 60.0 / limit.amount - self.room_s(now)
            return lacking_s if lacking_s > SLACK_S else 0.0
        if self.value + units <= limit.amount + SLACK_UNITS:
            return 0.0
        return CONCURRENT_WAIT_S if limit.kind == "concurrent" else charge.period_left_s

    def level(self, charge: Charge, now: float) -> Level:
        """How it stands; *charge* tells when the period ends."""
        limit = self.limit
        if self.is_rate:
            full_in_s = self.value - now
            if full_in_s <= 0.0:
                return Level(limit.burst, 0.0)
            remaining = limit.burst - full_in_s * limit.amount / 60.0
            return Level(max(0.0, remaining), full_in_s)
        remaining = limit.amount - self.value
        return Level(max(0.0, remaining), charge.period_left_s)


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
        self._restored: dict[tuple[str, str], MeterState] = {}
        self.alerted: list[Meter] = []
        """Whoever looks at it empties it."""

    def __len__(self) -> int:
        """Reservations that are not settled yet."""
        return len(self._held)

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
            value = meter.value
            if meter.is_rate:
                unit_s = meter.unit_s
                burst_s, taken_s = meter.burst * unit_s, units * unit_s
                ahead_s = value - now if value > now else 0.0
                room_s = burst_s + SLACK_S - ahead_s
                if units > 0.0 and ((room_s < taken_s and room_s < burst_s) or units > meter.amount + SLACK_UNITS):
                    return self._refusal(team, charges, now)
                ahead_s += taken_s
                meter.granted = now + ahead_s
                remaining = meter.burst - ahead_s / unit_s
                levels.append(Level(remaining if remaining > 0.0 else 0.0, ahead_s))  # noqa: FURB136  # max() is slower
            else:
                value += units
                remaining = meter.amount - value
                if units > 0.0 and remaining < -SLACK_UNITS:
                    return self._refusal(team, charges, now)
                meter.granted = value
                levels.append(Level(remaining if remaining > 0.0 else 0.0, charge.period_left_s))  # noqa: FURB136
            found.append(meter)
        for meter in found:
            value = meter.value = meter.granted
            if value > meter.alert:
                self.alerted.append(meter)
        self._held[reservation] = Held(team, charges, found, until, lost)
        return Granted(tuple(levels))

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
        """Settle at what was reserved those whose lease has ended. Costs a look at every reservation."""
        ended = [reservation for reservation, held in self._held.items() if held.until <= now]
        return [held for held in [self.settle(each, self._held[each].charges) for each in ended] if held is not None]

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
        for team, meters in list(self._teams.items()):
            for limit, meter in list(meters.items()):
                is_idle = meter.value <= now if meter.is_rate else meter.ends <= now
                if is_idle and id(meter) not in live:
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
            meter.is_past = True
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
