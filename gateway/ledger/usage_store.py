"""The seam behind which the ledger is read. It is written with what settles a reservation: see `QuotaStore`."""

import calendar
import re
from collections.abc import Sequence
from datetime import date
from typing import Literal, Protocol, Self

import msgspec
from msgspec import structs

from gateway.errors import InvalidField
from gateway.ledger.cursor import Page
from gateway.ledger.measures import Measures, usd
from gateway.ledger.record import Outcome, UsageRecord

Dimension = Literal["month", "day", "team", "key", "project", "model", "backend"]
"""What sums can be grouped by."""

OTHER_USERS = "(other)"
"""Those of a team whom there was no room to tell apart."""

NEW_USERS_PER_DAY = 1000
"""So many of a team are told apart that were not seen before in that month: who they are is what callers say."""


class Period(msgspec.Struct, frozen=True):
    """Days of the calendar, both ends included, ``2026-11-21``.

    Raises:
        InvalidField: one of them is no day; *param* is ``from`` or ``to``.
    """

    first_day: str
    last_day: str

    def __post_init__(self) -> None:
        for param, day in (("from", self.first_day), ("to", self.last_day)):
            if not _is_day(day):
                raise InvalidField("It must be a day such as 2026-11-21", param=param)

    @classmethod
    def month(cls, month: str) -> Self:
        """All days of ``2026-11``.

        Raises:
            InvalidField: it is no month.
        """
        found = re.fullmatch(r"([0-9]{4})-(0[1-9]|1[0-2])", month)
        if found is None or found[1] == "0000":
            raise InvalidField("It must be a month such as 2026-11", param="month")
        last = calendar.monthrange(int(found[1]), int(found[2]))[1]
        return cls(f"{month}-01", f"{month}-{last:02d}")


def _is_day(text: str) -> bool:
    """As it is stored, that is: `date.fromisoformat` knows more ways to write one."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """None: any. Of project and backend, an empty text: those without one."""

    team: str | None = None
    key: str | None = None
    project: str | None = None
    model: str | None = None
    backend: str | None = None


class SumQuery(msgspec.Struct, frozen=True, kw_only=True):
    period: Period
    of: Filter = Filter()
    by: tuple[Dimension, ...] = ()
    """Empty: all in one sum."""


def group_of(by: Sequence[Dimension], values: Sequence[str]) -> dict[str, str | None]:
    """*values* as `UsageSum.group` has them; stores keep an empty text where there is none."""
    return dict(zip(by, (value or None for value in values), strict=True))


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """What a group of requests came to."""

    group: dict[str, str | None]
    """The dimensions asked for, or ``user``; a project or backend is None where there was none."""
    requests: int
    """All of them, however they ended."""
    failed: int
    aborted: int
    lost: int
    fallbacks: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    fallback_cost_usd: float
    """Of cost_usd, what Bedrock's answers cost."""

    @classmethod
    def of(cls, group: dict[str, str | None], measures: Measures) -> Self:
        *counts, cost, saved, fallback_cost = measures
        names = cls.__struct_fields__[1:9]
        return cls(
            group=group,
            cost_usd=usd(cost),
            saved_usd=usd(saved),
            fallback_cost_usd=usd(fallback_cost),
            **dict(zip(names, counts, strict=True)),
        )


class RecordQuery(msgspec.Struct, frozen=True, kw_only=True):
    period: Period
    of: Filter = Filter()
    since: str | None = None
    """Ended at this time or later; written as records have it, ``2026-11-21T08:00:00.000Z``."""
    until: str | None = None
    """Ended before this time."""
    user: str | None = None
    outcome: Outcome | None = None
    request_id: str | None = None

    def admits(self, record: UsageRecord) -> bool:
        """Whether *record* is asked for; the day that it was booked under is not looked at."""
        asked = {**structs.asdict(self.of), "user": self.user, "outcome": self.outcome, "request_id": self.request_id}
        return (
            all(value is None or value == (getattr(record, name) or "") for name, value in asked.items())
            and (self.since is None or record.time >= self.since)
            and (self.until is None or record.time < self.until)
        )


class UsageStore(Protocol):
    """What was booked can be read a moment later. Every call does a bounded amount of work, but for the sums of a long
    period, which read its rollups: one for each key, project, model and backend of a day, never the records.

    Each raises StoreAway when it cannot be reached.
    """

    async def sums(self, query: SumQuery) -> list[UsageSum]:
        """One for each group in which there is something, ordered by the group's values; with no `by`, just one."""
        ...

    async def users(self, team: str, month: str, *, most: int = 100, user: str | None = None) -> list[UsageSum]:
        """End users of *team* in a month, ``2026-11``, who cost most first, then who asked most. O(users of the month).

        At most `NEW_USERS_PER_DAY` are told apart of those that a day brings; others are in one sum, `OTHER_USERS`.
        *user*: just this one.
        """
        ...

    async def records(self, query: RecordQuery, *, cursor: str | None = None, most: int = 100) -> Page[UsageRecord]:
        """A page of records: latest day first, and in a day, what was booked last first, to the millisecond.

        What is there when the first page is read comes exactly once, whatever is booked meanwhile.

        Raises:
            InvalidField: *cursor* is none of this list.
            ValueError: *most* is below 1.
        """
        ...

    async def teams(self) -> list[str]:
        """All that ever booked, in order, those that are no more as well."""
        ...

    async def forget(self, *, records_before: str, sums_before: str) -> bool:
        """Remove records of days before the one, and sums of days before the other; users go with the sums of their
        month. Whether there may be more: then it is to be called again.
        """
        ...
