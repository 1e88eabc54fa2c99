"""`/admin/v1/usage`: return the usage and cost of teams and keys."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, BeforeValidator, Field

from gateway.api.admin_access import AdminKey, Who, needs
from gateway.api.admin_v1 import paging
from gateway.api.admin_v1.entities import unknown_key, unknown_team
from gateway.api.admin_v1.paging import After, Listed, listing
from gateway.api.admin_v1.parts import Parts, PartsOfApp
from gateway.protocol.errors import InvalidField
from gateway.tenancy.ledger.export import records_csv, records_jsonl, sums_csv
from gateway.tenancy.ledger.record import Outcome
from gateway.tenancy.ledger.usage_store import Dimension, Filter, Period, RecordQuery, SumQuery, UsageSum

Json = dict[str, Any]

router = APIRouter(prefix="/admin/v1/usage", tags=["usage"], dependencies=[Depends(needs("viewer"))])

MEDIA = {"csv": "text/csv; charset=utf-8; header=present", "jsonl": "application/jsonl"}

MONTH = r"^[0-9]{4}-[0-9]{2}$"
DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"

Text = Annotated[str, Field(max_length=256)]


def _split(value: Any) -> Any:
    """Split comma-separated values, so that ``group_by=team,model`` equals ``group_by=team&group_by=model``."""
    if isinstance(value, list):
        return [part for text in value for part in (text.split(",") if isinstance(text, str) else [text])]
    return value


class DateRange(paging.Query):
    """Query for a range of whole days in the ledger's time zone."""

    month: Annotated[str, Field(pattern=MONTH)] | None = Field(
        default=None, description="month, e.g. 2026-11; the current month if omitted"
    )
    first_day: Annotated[str, Field(pattern=DAY)] | None = Field(
        default=None, alias="from", description="first day, e.g. 2026-11-01, instead of a month"
    )
    last_day: Annotated[str, Field(pattern=DAY)] | None = Field(
        default=None, alias="to", description="last day, inclusive, e.g. 2026-11-21; the current day if omitted"
    )

    def period(self, today: date) -> Period:
        """Return the queried period. The default depends on the current day *today*.

        Raises:
            InvalidField: if the parameters contradict each other.
        """
        if self.month is not None:
            if self.first_day is not None or self.last_day is not None:
                raise InvalidField("'month' cannot be combined with 'from' or 'to'.", param="month")
            return Period.month(self.month)
        if self.first_day is None:
            if self.last_day is not None:
                raise InvalidField("'to' requires 'from'.", param="from")
            return Period.month(f"{today:%Y-%m}")
        first, last = _day(self.first_day, "from"), today if self.last_day is None else _day(self.last_day, "to")
        if last < first:
            raise InvalidField("'to' is before 'from'.", param="to")
        return Period(first.isoformat(), last.isoformat())


class Filters(DateRange):
    team: Text | None = None
    key: Text | None = Field(default=None, description="ID of the key")
    project: Text | None = Field(default=None, description="project tag; empty for requests without a project")
    model: Text | None = Field(default=None, description="configured name of the model")
    backend: Text | None = Field(
        default=None, description="worker ID or bedrock; empty for requests that no backend answered"
    )

    def within(self, who: AdminKey) -> Self:
        """Return the query, limited to the team of the admin key *who*.

        Raises:
            Forbidden: if the query asks for another team.
        """
        return self.model_copy(update={"team": who.team_within(self.team)})

    def filter(self) -> Filter:
        return Filter(team=self.team, key=self.key, project=self.project, model=self.model, backend=self.backend)


class SumsQuery(Filters):
    group_by: Annotated[list[Dimension], BeforeValidator(_split)] = Field(
        default=[], description="dimensions to group by; separate several with commas"
    )
    format: Literal["json", "csv"] = Field(default="json", description="format of the answer; csv is for spreadsheets")


class RecordsQuery(Filters):
    user: Text | None = Field(default=None, description="end user that the caller named")
    outcome: Outcome | None = None
    request_id: Text | None = None

    def query(self, today: date) -> RecordQuery:
        return RecordQuery(
            period=self.period(today),
            of=self.filter(),
            user=self.user,
            outcome=self.outcome,
            request_id=self.request_id,
        )


class RecordsPage(RecordsQuery):
    limit: Annotated[int, Field(ge=1, le=paging.MOST)] = paging.USUAL
    after: After | None = None


class Export(RecordsQuery):
    format: Literal["csv", "jsonl"] = "csv"


class UsersQuery(paging.Query):
    team: Text = Field(description="team of the end users")
    month: Annotated[str, Field(pattern=MONTH)] | None = Field(
        default=None, description="month, e.g. 2026-11; the current month if omitted"
    )
    user: Text | None = Field(default=None, description="return only the usage of this end user")
    limit: Annotated[int, Field(ge=1, le=paging.MOST)] = paging.USUAL


class SumResponse(BaseModel):
    """Sums of the usage in one group. The response also contains the values of the group's dimensions."""

    requests: int
    failed: int
    aborted: int
    lost: int
    fallbacks: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    fallback_cost_usd: float = Field(description="part of cost_usd spent on fallbacks")


class UsageResponse(BaseModel):
    object: Literal["usage"]
    first_day: str = Field(alias="from")
    last_day: str = Field(alias="to")
    group_by: list[str]
    data: list[SumResponse]
    total: SumResponse


class RecordResponse(BaseModel):
    time: str
    request_id: str
    team: str
    project: str | None
    key: str
    user: str | None
    model_asked: str
    model: str
    backend: str | None
    outcome: Outcome
    status: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    fell_back: bool
    ttft_ms: float | None
    duration_ms: float


@router.get(
    "",
    summary="Return usage sums of a month or a range of days",
    response_model=UsageResponse,
    responses={200: {"content": {MEDIA["csv"]: {"schema": {"type": "string"}}}}},
)
async def read_usage(who: Who, parts: PartsOfApp, asked: Annotated[SumsQuery, Query()]) -> Response:
    asked = asked.within(who)
    period = asked.period(_today(parts))
    await _check(parts, who, asked.filter(), period)
    by: tuple[Dimension, ...] = tuple(dict.fromkeys(asked.group_by))
    (total,) = await parts.usage.sums(SumQuery(period=period, of=asked.filter()))
    groups = await parts.usage.sums(SumQuery(period=period, of=asked.filter(), by=by)) if by else [total]
    if asked.format == "csv":
        return Response(sums_csv(groups, by), media_type=MEDIA["csv"], headers=_attachment(period, "csv"))
    return JSONResponse(
        {
            "object": "usage",
            "from": period.first_day,
            "to": period.last_day,
            "group_by": list(by),
            "data": [_sum_response(each) for each in groups],
            "total": _sum_response(total),
        }
    )


@router.get(
    "/users", summary="List a team's end users with the highest cost in a month", response_model=Listed[SumResponse]
)
async def read_users(who: Who, parts: PartsOfApp, asked: Annotated[UsersQuery, Query()]) -> Response:
    who.team_within(asked.team)
    month = DateRange(month=asked.month).period(_today(parts)).first_day[:7]
    await _check_team(parts, asked.team)
    users = await parts.usage.users(asked.team, month, most=asked.limit, user=asked.user)
    return JSONResponse(listing([_sum_response(each) for each in users], None))


@router.get("/records", summary="List individual requests, latest first", response_model=Listed[RecordResponse])
async def read_records(who: Who, parts: PartsOfApp, asked: Annotated[RecordsPage, Query()]) -> Response:
    asked = asked.within(who)
    query = asked.query(_today(parts))
    await _check(parts, who, query.of, query.period)
    page = await paging.of_cursor(parts.usage.records(query, cursor=asked.after, most=asked.limit))
    return JSONResponse(listing([msgspec.to_builtins(record) for record in page.items], page.next))


@router.get(
    "/export",
    summary="Export individual requests as CSV or JSON lines",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The latest records come first. If an error occurs, the gateway closes the connection.",
            "content": {media: {"schema": {"type": "string"}} for media in MEDIA.values()},
        }
    },
)
async def export(who: Who, parts: PartsOfApp, asked: Annotated[Export, Query()]) -> Response:
    asked = asked.within(who)
    query = asked.query(_today(parts))
    await _check(parts, who, query.of, query.period)
    pieces = (records_csv if asked.format == "csv" else records_jsonl)(parts.usage, query)
    return StreamingResponse(
        await _begun(pieces),
        media_type=MEDIA[asked.format],
        headers=_attachment(query.period, asked.format),
    )


def _attachment(period: Period, ending: str) -> dict[str, str]:
    """Return the headers of a file with usage, which no cache may keep."""
    name = f"usage-{period.first_day}-{period.last_day}.{ending}"
    return {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}


async def _check(parts: Parts, who: AdminKey, of: Filter, period: Period) -> None:
    """Check that the team and key of a filter exist, so that a misspelled name is not reported as zero usage.

    Raises:
        UnknownEntity: if the team or key is unknown and has no usage in the ledger.
    """
    if of.team is not None:
        await _check_team(parts, of.team)
    key = None if of.key is None else (await parts.entities.look()).keys.get(of.key)
    if of.key is not None and (key is None or not who.sees(key.team)):
        (deleted,) = await parts.usage.sums(SumQuery(period=period, of=Filter(team=who.team, key=of.key)))
        if not deleted.requests:
            raise unknown_key(of.key, param="key")


async def _check_team(parts: Parts, team: str) -> None:
    if team not in await parts.usage.teams() and team not in (await parts.entities.look()).teams:
        raise unknown_team(team, param="team")


async def _begun(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the pieces of a streamed response unchanged, after waiting for the first two.

    An unavailable store can thus still result in status 503.
    """
    first = [piece async for piece in _most(pieces, 2)]

    async def all_of_them() -> AsyncIterator[bytes]:
        for piece in first:
            yield piece
        async for piece in pieces:
            yield piece

    return all_of_them()


async def _most(pieces: AsyncIterator[bytes], count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        try:
            yield await anext(pieces)
        except StopAsyncIteration:
            return


def _sum_response(each: UsageSum) -> Json:
    shown: Json = msgspec.to_builtins(each)
    group: Json = shown.pop("group")
    return group | shown


def _today(parts: Parts) -> date:
    return datetime.fromtimestamp(parts.wall_clock(), UTC).astimezone(parts.zone).date()


def _day(text: str, param: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidField(f"{param!r} is not a day such as 2026-11-21.", param=param) from None
