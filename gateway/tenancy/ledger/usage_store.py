"""Interface for reading the ledger. Entries are written when a reservation is settled; see `QuotaStore`."""

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
"""Dimensions by which usage sums can be grouped."""

OTHER_USERS = "(other)"
"""Name of the sum over all end users of a team beyond the limit `NEW_USERS_PER_DAY`."""

NEW_USERS_PER_DAY = 1000
"""Maximum number of new end users of a team and month that are added in one day. Callers choose the names, so their
number must be limited.
"""


class Period(msgspec.Struct, frozen=True):
    """Range of calendar days in the form ``2026-11-21``, including the first and the last day.

    Raises:
        InvalidField: if *first_day* or *last_day* is not a day; *param* is ``from`` or ``to``.
    """

    first_day: str
    last_day: str

    def __post_init__(self) -> None:
        for param, day in (("from", self.first_day), ("to", self.last_day)):
            if not _is_day(day):
                raise InvalidField("The day must have the form 2026-11-21", param=param)

    @classmethod
    def month(cls, month: str) -> Self:
        """Return the period of all days in *month*, in the form ``2026-11``.

        Raises:
            InvalidField: if *month* is not a month.
        """
        found = re.fullmatch(r"([0-9]{4})-(0[1-9]|1[0-2])", month)
        if found is None or found[1] == "0000":
            raise InvalidField("The month must have the form 2026-11", param="month")
        last = calendar.monthrange(int(found[1]), int(found[2]))[1]
        return cls(f"{month}-01", f"{month}-{last:02d}")


def _is_day(text: str) -> bool:
    """Return whether *text* is a day in the stored form. In contrast, `date.fromisoformat` accepts further forms."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on ledger records. A value of None matches everything, and an empty project or backend matches
    requests without one.
    """

    team: str | None = None
    key: str | None = None
    project: str | None = None
    model: str | None = None
    backend: str | None = None


class SumQuery(msgspec.Struct, frozen=True, kw_only=True):
    period: Period
    of: Filter = Filter()
    by: tuple[Dimension, ...] = ()
    """Dimensions by which to group. Without dimensions, the result is one sum over everything."""


def group_of(by: Sequence[Dimension], values: Sequence[str]) -> dict[str, str | None]:
    """Pair the dimensions in *by* with *values*, as in `UsageSum.group`. Stores keep an empty string for a missing
    value, which becomes None.
    """
    return dict(zip(by, (value or None for value in values), strict=True))


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """Usage summed over a group of requests."""

    group: dict[str, str | None]
    """Values of the query's dimensions, or of ``user``. Requests without a project or backend have the value None."""
    requests: int
    """Number of requests, independent of their outcome."""
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
    """Cost in US dollars of the answers from Bedrock. The total in cost_usd includes it."""

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
    """Earliest end time of a request (inclusive), in the form ``2026-11-21T08:00:00.000Z``."""
    until: str | None = None
    """Latest end time of a request (exclusive), in the form ``2026-11-21T08:00:00.000Z``."""
    user: str | None = None
    outcome: Outcome | None = None
    request_id: str | None = None

    def admits(self, record: UsageRecord) -> bool:
        """Return whether *record* matches the conditions of the query. The day is not checked."""
        asked = {**structs.asdict(self.of), "user": self.user, "outcome": self.outcome, "request_id": self.request_id}
        return (
            all(value is None or value == (getattr(record, name) or "") for name, value in asked.items())
            and (self.since is None or record.time >= self.since)
            and (self.until is None or record.time < self.until)
        )


class UsageStore(Protocol):
    """Reader for ledger entries, which appear shortly after they are written. Every call does a limited amount of work.
    Sums over a long period use only stored sums, which have one row per day, key, project, model and backend.

    Every call raises StoreUnavailable if the store cannot be reached.
    """

    async def sums(self, query: SumQuery) -> list[UsageSum]:
        """Return the sum of each group that has requests, in the order of the group's values. Without `by`, return one
        sum.
        """
        ...

    async def users(self, team: str, month: str, *, most: int = 100, user: str | None = None) -> list[UsageSum]:
        """Return the usage of each end user of *team* in *month* (``2026-11``), first by highest cost and then by most
        requests. O(users of the month).

        One day adds at most `NEW_USERS_PER_DAY` users; the sum `OTHER_USERS` holds all others. If *user* is given,
        return only that end user.
        """
        ...

    async def records(self, query: RecordQuery, *, cursor: str | None = None, most: int = 100) -> Page[UsageRecord]:
        """Return a page of ledger records, latest day first. Within a day, the record written last comes first.

        Each record that exists when the first page is read appears exactly once, even if others are booked meanwhile.

        Raises:
            InvalidField: if *cursor* does not belong to this list.
            ValueError: if *most* is below 1.
        """
        ...

    async def teams(self) -> list[str]:
        """Return the sorted names of all teams that ever had a ledger entry, including deleted teams."""
        ...

    async def forget(self, *, records_before: str, sums_before: str) -> bool:
        """Remove some of the records of days before *records_before*, and of the sums of days before *sums_before*.
        Sums of end users are removed together with their month.

        Returns:
            True if more may remain. The caller should then call again.
        """
        ...
