"""What the admin API expects of any `UsageStore`."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import combinations
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as trials
from hypothesis import strategies as st

from gateway.protocol.errors import InvalidField
from gateway.tenancy.ledger.cursor import cursor_of
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.record import UsageRecord
from gateway.tenancy.ledger.usage_store import (
    NEW_USERS_PER_DAY,
    OTHER_USERS,
    Dimension,
    Filter,
    Period,
    RecordQuery,
    SumQuery,
    UsageStore,
    UsageSum,
)
from tests.gateway.tenancy.ledger.examples import Ledger, a_record, an_entry, redis_ledger, sqlite_ledger
from tests.storage import RedisServer

NOVEMBER = Period.month("2026-11")
EVER = Period("2026-01-01", "2027-12-31")
DIMENSIONS: tuple[Dimension, ...] = ("month", "day", "team", "key", "project", "model", "backend")


class Open(Protocol):
    def __call__(self, *, scanned: int = 1000) -> AbstractAsyncContextManager[Ledger]:
        """A ledger that looks at no more than *scanned* records for a page."""
        ...


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def open_ledger(request: pytest.FixtureRequest) -> Open:
    if request.param == "sqlite":
        return sqlite_ledger
    server: RedisServer = request.getfixturevalue("redis_server")
    return partial(redis_ledger, server)


@pytest.fixture
async def ledger(open_ledger: Open) -> AsyncIterator[Ledger]:
    async with open_ledger() as opened:
        yield opened


async def all_records(usage: UsageStore, query: RecordQuery, *, most: int = 3) -> list[UsageRecord]:
    found: list[UsageRecord] = []
    cursor = None
    while True:
        page = await usage.records(query, cursor=cursor, most=most)
        assert len(page.items) <= most
        found.extend(page.items)
        cursor = page.next
        if cursor is None:
            return found


def ids(records: Iterable[UsageRecord]) -> list[str]:
    return [record.request_id for record in records]


async def test_nothing_booked_is_one_sum_of_nothing(ledger: Ledger) -> None:
    nothing = UsageSum(
        group={},
        requests=0,
        failed=0,
        aborted=0,
        lost=0,
        fallbacks=0,
        prompt_tokens=0,
        cached_tokens=0,
        completion_tokens=0,
        cost_usd=0.0,
        saved_usd=0.0,
        fallback_cost_usd=0.0,
    )

    assert [nothing] == await ledger.usage.sums(SumQuery(period=NOVEMBER))
    assert [] == await ledger.usage.sums(SumQuery(period=NOVEMBER, by=("team",)))
    assert [] == await ledger.usage.users("blue", "2026-11")
    assert [] == await ledger.usage.teams()
    assert ((), None) == (
        tuple((page := await ledger.usage.records(RecordQuery(period=NOVEMBER))).items),
        page.next,
    )


async def test_a_sum_has_every_measure(ledger: Ledger) -> None:
    await ledger.book([an_entry(), an_entry(outcome="failed", prompt_tokens=0, cached_tokens=0, completion_tokens=0)])
    await ledger.book([an_entry(outcome="aborted"), an_entry(outcome="lost")])
    await ledger.book([an_entry(backend="bedrock", fell_back=True, cached_tokens=0, cost_usd=0.25, saved_usd=0.0)])

    assert [
        UsageSum(
            group={},
            requests=5,
            failed=1,
            aborted=1,
            lost=1,
            fallbacks=1,
            prompt_tokens=400,
            cached_tokens=180,
            completion_tokens=80,
            cost_usd=0.254,
            saved_usd=0.0016,
            fallback_cost_usd=0.25,
        )
    ] == await ledger.usage.sums(SumQuery(period=NOVEMBER))


async def test_money_adds_up_to_the_nano_dollar(ledger: Ledger) -> None:
    """A thousand times the price of one cached token: floats would have drifted."""
    for _ in range(10):
        await ledger.book([an_entry(cost_usd=1e-9, saved_usd=3e-9)] * 100)

    (total,) = await ledger.usage.sums(SumQuery(period=NOVEMBER))

    assert (1e-6, 3e-6) == (total.cost_usd, total.saved_usd)


async def test_missing_values_are_grouped_as_none(ledger: Ledger) -> None:
    await ledger.book([an_entry(project="web"), an_entry(backend=None, outcome="failed")])

    sums = await ledger.usage.sums(SumQuery(period=NOVEMBER, by=("project", "backend")))

    assert [{"project": None, "backend": None}, {"project": "web", "backend": "w1"}] == [one.group for one in sums]


async def test_an_empty_filter_finds_what_has_no_project(ledger: Ledger) -> None:
    await ledger.book([an_entry(project="web", request_id="a"), an_entry(request_id="b")])
    without = Filter(project="")

    (one,) = await ledger.usage.sums(SumQuery(period=NOVEMBER, of=without))
    records = await all_records(ledger.usage, RecordQuery(period=NOVEMBER, of=without))

    assert 1 == one.requests
    assert ["b"] == ids(records)


async def test_a_period_includes_both_of_its_days(ledger: Ledger) -> None:
    await ledger.book([an_entry(f"2026-11-{day:02d}", request_id=str(day)) for day in range(1, 9)])
    period = Period("2026-11-03", "2026-11-05")

    days = await ledger.usage.sums(SumQuery(period=period, by=("day",)))
    records = await all_records(ledger.usage, RecordQuery(period=period), most=2)

    assert ["2026-11-03", "2026-11-04", "2026-11-05"] == [one.group["day"] for one in days]
    assert ["5", "4", "3"] == ids(records)


async def test_teams_are_remembered_in_order(ledger: Ledger) -> None:
    await ledger.book([an_entry(team="red"), an_entry(team="blue"), an_entry(team="red")])

    assert ["blue", "red"] == await ledger.usage.teams()


async def test_a_record_comes_back_as_it_was_booked(ledger: Ledger) -> None:
    plain = a_record(project="web", user="ünï '\"\x00,;", ttft_ms=None, fell_back=True)
    await ledger.book([Entry.from_record("2026-11-21", plain)])

    assert [plain] == await all_records(ledger.usage, RecordQuery(period=NOVEMBER))


async def test_records_come_latest_day_first_and_then_latest_booked(ledger: Ledger) -> None:
    """Whatever the order of the days in which they were booked."""
    for number, day in enumerate([20, 21, 21, 20, 19]):
        await ledger.book([an_entry(f"2026-11-{day}", request_id=str(number))])

    assert ["2", "1", "3", "0", "4"] == ids(await all_records(ledger.usage, RecordQuery(period=NOVEMBER), most=2))


async def test_records_of_all_teams_are_in_one_row(ledger: Ledger) -> None:
    for number in range(30):
        await ledger.book([an_entry(f"2026-11-{20 + number % 2}", team="abc"[number % 3], request_id=f"{number:02d}")])

    records = await all_records(ledger.usage, RecordQuery(period=NOVEMBER), most=4)

    assert {"1"} == {str(int(one.request_id) % 2) for one in records[:15]}
    for team in "abc":
        for half in (records[:15], records[15:]):
            theirs = [one.request_id for one in half if one.team == team]
            assert 5 == len(theirs)
            assert sorted(theirs, reverse=True) == theirs


@pytest.mark.parametrize(
    ("field", "value"),
    [("team", "red"), ("key", "dev"), ("project", "web"), ("model", "big"), ("backend", "w2")],
)
async def test_records_are_filtered_by_each_dimension(ledger: Ledger, field: str, value: str) -> None:
    await ledger.book([an_entry(), an_entry(request_id="this", **{field: value}), an_entry()])

    query = RecordQuery(period=NOVEMBER, of=Filter(**{field: value}))

    assert ["this"] == ids(await all_records(ledger.usage, query))


@pytest.mark.parametrize(
    "query",
    [
        RecordQuery(period=NOVEMBER, user="ann"),
        RecordQuery(period=NOVEMBER, outcome="aborted"),
        RecordQuery(period=NOVEMBER, request_id="this"),
    ],
)
async def test_records_are_filtered_by_who_and_how(ledger: Ledger, query: RecordQuery) -> None:
    await ledger.book([an_entry(), an_entry(user="ann", outcome="aborted", request_id="this"), an_entry()])

    assert ["this"] == ids(await all_records(ledger.usage, query))


async def test_records_are_filtered_by_time(ledger: Ledger) -> None:
    """From the one time, which is included, to the other, which is not."""
    times = [f"2026-11-21T08:00:0{second}.000Z" for second in range(6)]
    await ledger.book([an_entry(time=time) for time in times])

    found = await all_records(ledger.usage, RecordQuery(period=NOVEMBER, since=times[2], until=times[4]))

    assert [times[3], times[2]] == [record.time for record in found]


async def test_a_request_is_found_among_those_of_every_team(ledger: Ledger) -> None:
    await ledger.book(
        [an_entry(f"2026-11-{day:02d}", team=f"t{day % 3}", request_id=f"r{day}") for day in range(1, 20)]
    )

    (found,) = await all_records(ledger.usage, RecordQuery(period=EVER, request_id="r7"))

    assert ("r7", "t1") == (found.request_id, found.team)


@pytest.mark.parametrize(
    "cursor", ["", "%%%", "AAAA", cursor_of("2026-11-21"), cursor_of("2026-11-21", -1), cursor_of("a", 2**64, 0, "b")]
)
async def test_a_cursor_that_is_not_one_is_refused(ledger: Ledger, cursor: str) -> None:
    with pytest.raises(InvalidField) as refused:
        await ledger.usage.records(RecordQuery(period=NOVEMBER), cursor=cursor)

    assert "cursor" == refused.value.param


async def test_a_page_has_room_for_something(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="page size must be at least 1"):
        await ledger.usage.records(RecordQuery(period=NOVEMBER), most=0)


async def test_a_page_does_no_more_work_than_it_may(open_ledger: Open) -> None:
    """One that found nothing says where to go on."""
    async with open_ledger(scanned=10) as ledger:
        await ledger.book([an_entry(user="ann", request_id="this")])
        await ledger.book([an_entry(team=team) for team in ("blue", "red") * 12])
        query = RecordQuery(period=NOVEMBER, user="ann")
        pages = [await ledger.usage.records(query)]
        while (cursor := pages[-1].next) is not None:
            pages.append(await ledger.usage.records(query, cursor=cursor))

    assert [0, 0, 1] == [len(page.items) for page in pages]


async def test_every_record_comes_once_while_more_are_booked(ledger: Ledger) -> None:
    """Those that were there when the first page was read."""
    rng = random.Random(3)
    number = 0

    async def book(many: int) -> None:
        nonlocal number
        for _ in range(many):
            entry = an_entry(
                f"2026-11-{rng.randint(18, 22)}", team=rng.choice(["blue", "red", "green"]), request_id=str(number)
            )
            await ledger.book([entry])
            number += 1

    await book(60)
    there = {str(i) for i in range(60)}
    seen: Counter[str] = Counter()
    cursor = None
    while True:
        page = await ledger.usage.records(RecordQuery(period=NOVEMBER), cursor=cursor, most=7)
        seen.update(ids(page.items))
        cursor = page.next
        if cursor is None:
            break
        await book(5)

    assert there <= set(seen)
    assert {1} == set(seen.values())


async def test_end_users_come_by_what_they_cost(ledger: Ledger) -> None:
    """Then by how much they asked. Requests of no one in particular are not among them."""
    await ledger.book([an_entry(user="ann", cost_usd=0.1), an_entry(user="bob", cost_usd=0.5), an_entry()])
    await ledger.book([an_entry("2026-11-30", user="ann", cost_usd=0.1), an_entry(user="cem", cost_usd=0.2)])
    await ledger.book([an_entry("2026-12-01", user="ann", cost_usd=9.0), an_entry(team="red", user="ann")])

    first, second = await ledger.usage.users("blue", "2026-11", most=2)
    (ann,) = await ledger.usage.users("blue", "2026-11", user="ann")

    assert ({"user": "bob"}, 0.5, 1) == (first.group, first.cost_usd, first.requests)
    assert ({"user": "ann"}, 0.2, 2) == (second.group, second.cost_usd, second.requests)
    assert second == ann
    assert [] == await ledger.usage.users("blue", "2026-11", user="eve")


async def test_a_flood_of_end_users_is_one_of_others(ledger: Ledger) -> None:
    """What a day brings beyond its room is added up; who is known stays apart, and the next day has room again."""
    await ledger.book([an_entry(user="ann")])
    await ledger.book([an_entry(user=f"u{number}") for number in range(NEW_USERS_PER_DAY + 9)])
    await ledger.book([an_entry(user="ann"), an_entry("2026-11-22", user="bob")])

    users = {one.group["user"]: one.requests for one in await ledger.usage.users("blue", "2026-11", most=9999)}

    assert NEW_USERS_PER_DAY + 2 == len(users)
    assert (2, 1, 10) == (users["ann"], users["bob"], users[OTHER_USERS])


async def test_days_are_forgotten(ledger: Ledger) -> None:
    """Records of days before the one, sums of days before the other; users with their month."""
    for day in ("2026-10-31", "2026-11-19", "2026-11-20", "2026-11-21"):
        await ledger.book([an_entry(day, team=team, user="ann", request_id=day) for team in ("blue", "red")])

    while await ledger.usage.forget(records_before="2026-11-21", sums_before="2026-11-20"):
        pass

    records = await all_records(ledger.usage, RecordQuery(period=EVER))
    days = await ledger.usage.sums(SumQuery(period=EVER, by=("day",)))
    assert ["2026-11-21"] * 2 == ids(records)
    assert [("2026-11-20", 2), ("2026-11-21", 2)] == [(one.group["day"], one.requests) for one in days]
    assert [] == await ledger.usage.users("blue", "2026-10")
    assert 3 == (await ledger.usage.users("blue", "2026-11"))[0].requests
    assert ["blue", "red"] == await ledger.usage.teams()


async def test_much_is_forgotten_in_pieces(ledger: Ledger) -> None:
    """No single call removes all of it, and enough of them do."""
    calls = 0
    for year in range(1500, 1503):
        await ledger.book(
            [an_entry(f"{year}-{month:02d}-{day:02d}") for month in range(1, 13) for day in range(1, 29)] * 2
        )

    while await ledger.usage.forget(records_before="2026-11-21", sums_before="2026-11-21"):
        calls += 1
        assert calls < 100

    assert calls > 1
    assert [] == await ledger.usage.sums(SumQuery(period=Period("0001-01-01", "9999-12-31"), by=("day",)))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    some = st.sampled_from
    nano = st.integers(0, 10**9)
    prompt = draw(st.integers(0, 5000))
    return an_entry(
        draw(some(["2026-10-31", "2026-11-01", "2026-11-02", "2026-12-01"])),
        team=draw(some(["blue", "red"])),
        key=draw(some(["ci", "dev"])),
        project=draw(some([None, "web"])),
        model=draw(some(["tiny", "big"])),
        backend=draw(some([None, "w1", "bedrock"])),
        user=draw(some([None, "ann", "bob"])),
        outcome=draw(some(["ok", "aborted", "failed", "lost"])),
        prompt_tokens=prompt,
        cached_tokens=draw(st.integers(0, prompt)),
        completion_tokens=draw(st.integers(0, 500)),
        cost_usd=draw(nano) / 10**9,
        saved_usd=draw(nano) / 10**9,
        fell_back=draw(st.booleans()),
    )


GROUPINGS = [by for size in range(len(DIMENSIONS) + 1) for by in combinations(DIMENSIONS, size)]
FILTERS = [Filter(), Filter(team="blue"), Filter(key="ci", backend=""), Filter(project="web", model="big")]


def value_of(entry: Entry, dimension: Dimension) -> str:
    of_day = {"month": entry.day[:7], "day": entry.day}
    return of_day.get(dimension) or getattr(entry.record, dimension) or ""


def expected_sums(entries: Iterable[Entry], by: tuple[Dimension, ...]) -> list[UsageSum]:
    """The oracle: lists of entries, added up in whole nano-dollars."""
    groups: dict[tuple[str, ...], list[UsageRecord]] = {} if by else {(): []}
    for entry in entries:
        groups.setdefault(tuple(value_of(entry, dimension) for dimension in by), []).append(entry.record)
    return [
        sum_of(dict(zip(by, (value or None for value in group), strict=True)), groups[group])
        for group in sorted(groups)
    ]


def sum_of(group: dict[str, str | None], records: list[UsageRecord]) -> UsageSum:
    def nano(amounts: Iterable[float]) -> float:
        return sum(round(amount * 10**9) for amount in amounts) / 10**9

    outcomes = Counter(record.outcome for record in records)
    return UsageSum(
        group=group,
        requests=len(records),
        failed=outcomes["failed"],
        aborted=outcomes["aborted"],
        lost=outcomes["lost"],
        fallbacks=sum(record.fell_back for record in records),
        prompt_tokens=sum(record.prompt_tokens for record in records),
        cached_tokens=sum(record.cached_tokens for record in records),
        completion_tokens=sum(record.completion_tokens for record in records),
        cost_usd=nano(record.cost_usd for record in records),
        saved_usd=nano(record.saved_usd for record in records),
        fallback_cost_usd=nano(record.cost_usd for record in records if record.fell_back),
    )


def passes(entry: Entry, of: Filter, period: Period) -> bool:
    named = {name: getattr(of, name) for name in ("team", "key", "project", "model", "backend")}
    return period.first_day <= entry.day <= period.last_day and all(
        value is None or value == (getattr(entry.record, name) or "") for name, value in named.items()
    )


async def check_against_the_oracle(ledger: Ledger, batches: list[list[Entry]]) -> None:
    booked = [entry for batch in batches for entry in batch]
    for batch in batches:
        await ledger.book(batch)
    for by in GROUPINGS:
        assert expected_sums(booked, by) == await ledger.usage.sums(SumQuery(period=EVER, by=by))
    for of in FILTERS:
        chosen = [entry for entry in booked if passes(entry, of, NOVEMBER)]
        assert expected_sums(chosen, ("day", "key")) == await ledger.usage.sums(
            SumQuery(period=NOVEMBER, of=of, by=("day", "key"))
        )
        records = await all_records(ledger.usage, RecordQuery(period=NOVEMBER, of=of))
        assert Counter(entry.record for entry in chosen) == Counter(records)
    for user in await ledger.usage.users("blue", "2026-11"):
        name = user.group["user"]
        theirs = [entry.record for entry in booked if passes(entry, Filter(team="blue"), NOVEMBER)]
        assert sum_of({"user": name}, [record for record in theirs if record.user == name]) == user


BATCHES = st.lists(st.lists(entries(), max_size=12), max_size=5)


@given(BATCHES)
@trials(max_examples=25)
def test_sums_in_sqlite_are_those_of_the_entries(batches: list[list[Entry]]) -> None:
    async def check() -> None:
        async with sqlite_ledger() as ledger:
            await check_against_the_oracle(ledger, batches)

    asyncio.run(check())


@pytest.mark.redis
@given(batches=BATCHES)
@trials(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_in_redis_are_those_of_the_entries(redis_server: RedisServer, batches: list[list[Entry]]) -> None:
    async def check() -> None:
        with redis_server.client() as client:
            client.flushall()
        async with redis_ledger(redis_server) as ledger:
            await check_against_the_oracle(ledger, batches)

    asyncio.run(check())
