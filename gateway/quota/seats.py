"""The limits of one plan beside the meters that count them: found once, so that a request only adds up numbers.

What a request takes of all its limits follows from five numbers, `Taken`; charges and levels of each limit would be
some twenty objects per request. A short cut of `Meters.reserve` and `Meters.settle`, it decides as they do: where it
cannot grant, nothing has happened, and they are asked.
"""

from collections.abc import Sequence
from typing import Final

from gateway.ledger.entry import Draft, Entry
from gateway.quota.limit import Charge, Granted, Level, Limit
from gateway.quota.meter import Meter

# What of a request a limit counts. Numbers, as they are compared for every limit of every request.
ONE: Final = 0
PROMPT: Final = 1
COMPLETION: Final = 2
BOTH: Final = 3
USD: Final = 4
MOST: Final = 5
"""As BOTH, with the longest answer that is possible, as in USD: budgets are never passed by an answer that was long."""

NEVER: Final = 0
DAY: Final = 1
MONTH: Final = 2
"""When a limit begins at nought again."""


class Counted:
    """A limit of a plan, and how it is counted."""

    __slots__ = ("limit", "one", "period", "what")

    def __init__(self, limit: Limit, what: int, period: int) -> None:
        self.limit = limit
        self.what = what
        self.period = period
        self.one = Charge(limit, 1.0)
        """What every request takes of it, where that is one."""


class Seat:
    """One limit, and the meter that counts it."""

    __slots__ = ("level", "limit", "meter", "period", "unit_s", "what")

    def __init__(self, counted: Counted, meter: Meter) -> None:
        self.limit = counted.limit
        self.what = counted.what
        self.period = counted.period
        self.meter = meter
        self.unit_s = 60.0 / counted.limit.amount
        """rate: in which one unit comes back."""
        self.level = Level(0.0, 0.0)
        """As the last decision left it."""


class Seats:
    """Of all limits of a plan, all of one team."""

    __slots__ = ("day", "day_left_s", "desk", "each", "granted", "month", "month_left_s")

    def __init__(self, desk: "Desk", counted: Sequence[Counted], meters: Sequence[Meter]) -> None:
        """*meters* are those of *counted*, in their order."""
        self.desk = desk
        self.each = [Seat(limit, meter) for limit, meter in zip(counted, meters, strict=True)]
        self.granted = Granted(tuple([seat.level for seat in self.each]))
        """What `Desk.take` answers: the same object each time, with levels that are written anew."""
        self.day = self.month = ""
        self.day_left_s = self.month_left_s = 0.0
        """The periods of this moment, to be set before anything is taken."""

    def have_room(self, taken: "Taken", now: float) -> bool:
        """Whether all that *taken* says can be granted. False: not so, or it is another meter that counts by now.

        *now* is seconds since 1970. Some 50 ns for each limit.
        """
        for seat in self.each:
            meter, level = seat.meter, seat.level
            if meter.is_gone:
                return False
            if meter.limit is not seat.limit:
                meter.take(seat.limit)
            if seat.period == NEVER:
                reset_s = 0.0
            elif seat.period == DAY:
                if meter.period != self.day:
                    return False
                reset_s = self.day_left_s
            else:
                if meter.period != self.month:
                    return False
                reset_s = self.month_left_s
            if not meter.has_room(taken.units(seat.what), now):
                return False
            level.remaining = meter.left
            level.reset_s = meter.full_in_s if meter.is_rate else reset_s
        return True


class Taken:
    """What a request takes of the limits of a plan, until it is settled. Told from others by identity alone."""

    __slots__ = (
        "both",
        "completion",
        "is_held",
        "likely_usd",
        "most_both",
        "prompt",
        "seats",
        "until",
        "usd",
    )

    def __init__(self) -> None:
        self.seats: Seats | None = None
        """Where it was taken; None: it was not, or at length."""
        self.is_held = False
        self.prompt = 0.0
        """Of limits of what is read: tokens, weighted."""
        self.completion = 0.0
        """Of limits of what is written."""
        self.both = 0.0
        self.most_both = 0.0
        """Both with the longest answer that is possible."""
        self.usd = 0.0
        """With the longest answer that is possible."""
        self.likely_usd = 0.0
        """Settled where the outcome is never known; of tokens that is `both`."""
        self.until = 0.0
        """The end of its lease, seconds since 1970."""

    def units(self, what: int) -> float:
        """That a limit counts which counts *what*."""
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
        """Of what a budget has reserved, that will hardly be used."""
        return self.usd - self.likely_usd if what == USD else self.most_both - self.both

    def __call__(self) -> Entry:
        """What is to be booked should it never be settled: it is a `Draft`."""
        raise NotImplementedError


class Desk:
    """A store that decides at once, in memory. A class to inherit from: compiled, that is called twice as fast."""

    def now(self) -> float:
        """Its clock: seconds since 1970."""
        raise NotImplementedError

    def take(self, taken: Taken, now: float) -> Granted | None:
        """As `QuotaStore.reserve_at_once`, of what *taken* says of its seats; None: that one has to be asked.

        *now* is what its clock said a moment before.
        """
        raise NotImplementedError

    def give_back(
        self, taken: Taken, entry: Draft, *, one: float, prompt: float, completion: float, both: float, usd: float
    ) -> None:
        """As `QuotaStore.settle`: these were used of what was taken, *one* of the requests."""
        raise NotImplementedError
