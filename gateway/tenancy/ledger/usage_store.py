"""The seam for reading the ledger. Settling a reservation writes it: see `QuotaStore`."""

import calendar
import re
from collections.abc import Sequence
from datetime import date
from typing import Literal, Protocol, Self

import msgspec
from msgspec import structs

from gateway.protocol.errors import InvalidField
from gateway.tenancy.ledger.cursor import Page
from gateway.tenancy.ledger.measures import Measures, usd
from gateway.tenancy.ledger.record import Outcome, UsageRecord

Dimension = Literal["month", "day", "team", "key", "project", "model", "backend"]
"""Dimensions by which sums can be grouped."""

OTHER_USERS = "(other)"
"""The sum of a team's end users beyond `NEW_USERS_PER_DAY`."""

NEW_USERS_PER_DAY = 1000
"""End users of a team and month that one day may add. Callers choose their names, so the number is bounded."""


class Period(msgspec.Struct, frozen=True):
    """Days of the calendar, both ends included, ``2026-11-21``.

    Raises:
        InvalidField: one of them is not a day; *param* is ``from`` or ``to``.
    """

    first_day: str
    last_day: str

    def __post_init__(self) -> None:
        for param, day in (("from", self.first_day), ("to", self.last_day)):
            if not _is_day(day):
                raise InvalidField("The day must have the form 2026-11-21", param=param)

    @classmethod
    def month(cls, month: str) -> Self:
        """Return all days of ``2026-11``.

        Raises:
            InvalidField: it is not a month.
        """
        found = re.fullmatch(r"([0-9]{4})-(0[1-9]|1[0-2])", month)
        if found is None or found[1] == "0000":
            raise InvalidField("The month must have the form 2026-11", param="month")
        last = calendar.monthrange(int(found[1]), int(found[2]))[1]
        return cls(f"{month}-01", f"{month}-{last:02d}")


def _is_day(text: str) -> bool:
    """Return whether *text* has the stored form; `date.fromisoformat` accepts others too."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """None: any. An empty project or backend: requests without one."""

    team: str | None = None
    key: str | None = None
    project: str | None = None
    model: str | None = None
    backend: str | None = None


class SumQuery(msgspec.Struct, frozen=True, kw_only=True):
    period: Period
    of: Filter = Filter()
    by: tuple[Dimension, ...] = ()
    """Empty: one sum of everything."""


def group_of(by: Sequence[Dimension], values: Sequence[str]) -> dict[str, str | None]:
    """Return *values* in the form of `UsageSum.group`. Stores keep an empty text for a missing value."""
    return dict(zip(by, (value or None for value in values), strict=True))


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of a group of requests."""

    group: dict[str, str | None]
    """The dimensions of the query, or ``user``. None: requests without a project or backend."""
    requests: int
    """Requests of any outcome."""
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
    """Part of cost_usd, for answers of Bedrock."""

    @classmethod
    def from_group(cls, group: dict[str, str | None], measures: Measures) -> Self:
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
    """Earliest end of a request, in the form of records: ``2026-11-21T08:00:00.000Z``."""
    until: str | None = None
    """Requests ended before this time."""
    user: str | None = None
    outcome: Outcome | None = None
    request_id: str | None = None

    def admits(self, record: UsageRecord) -> bool:
        """Return whether *record* is in the query, apart from its day."""
        asked = {**structs.asdict(self.of), "user": self.user, "outcome": self.outcome, "request_id": self.request_id}
        return (
            all(value is None or value == (getattr(record, name) or "") for name, value in asked.items())
            and (self.since is None or record.time >= self.since)
            and (self.until is None or record.time < self.until)
        )


class UsageStore(Protocol):
    """Reads what was booked, a moment later. Every call does a bounded amount of work. The sums of a long period read
    its rollups, one for each key, project, model and backend of a day, and never the records.

    Every call raises StoreUnavailable when the store cannot be reached.
    """

    async def sums(self, query: SumQuery) -> list[UsageSum]:
        """Return the sum of each group that has requests, ordered by its values. Without `by`, return one sum."""
        ...

    async def users(self, team: str, month: str, *, most: int = 100, user: str | None = None) -> list[UsageSum]:
        """Return end users of *team* in a month, ``2026-11``, by cost, then by requests, highest first. O(users of the
        month).

        A day adds at most `NEW_USERS_PER_DAY`; the others are in one sum, `OTHER_USERS`. *user*: only this one.
        """
        ...

    async def records(self, query: RecordQuery, *, cursor: str | None = None, most: int = 100) -> Page[UsageRecord]:
        """Return a page of records: latest day first, and within a day, latest booking first, to the millisecond.

        Records that exist when the first page is read appear exactly once, whatever is booked meanwhile.

        Raises:
            InvalidField: *cursor* is not of this list.
            ValueError: *most* is below 1.
        """
        ...

    async def teams(self) -> list[str]:
        """Return all teams that ever booked, sorted, including deleted ones."""
        ...

    async def forget(self, *, records_before: str, sums_before: str) -> bool:
        """Remove records of days before the one, and sums of days before the other. End users go with the sums of their
        month.

        Returns:
            Whether there may be more; then it is to be called again.
        """
        ...
