"""What a request takes of which limits, and when days and months end."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tenancy.ledger.price import Price
from gateway.tenancy.quota import plan as plans
from gateway.tenancy.quota.limit import Charge, Limit
from gateway.tenancy.quota.plan import Calendar, Metered, Plan, Plans, Tokens
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.limit_raise import LimitRaise
from gateway.tenancy.teams.limits import Limits
from tests.gateway.tenancy.quota.examples import NOW, caller

PRICE = Price.per_million(input_usd=1.0, cached_input_usd=0.1, output_usd=2.0)
TINY = Metered("tiny", PRICE.cost_usd)
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()


def made_plans() -> Plans:
    return Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(UTC))


def plan_of(who: Caller, *, burst: float = 0.1, cached_weight: float = 0.1, zone: str = "UTC") -> Plan:
    return Plans(burst=burst, cached_weight=cached_weight, calendar=Calendar(ZoneInfo(zone))).plan_for(who, TINY)


def units_of(charges: list[Charge]) -> dict[str, float]:
    return {charge.limit.id: charge.units for charge in charges}


def test_a_plan_has_the_limits_of_key_and_team_and_of_the_model_within_either() -> None:
    who = caller(
        key=Limits(requests_per_minute=600, concurrent=5),
        key_model={"tiny": Limits(tokens_per_day=1000), "large": Limits(concurrent=1)},
        team=Limits(tokens_per_minute=50_000),
        team_model={"tiny": Limits(usd_per_month=100.0)},
    )

    assert (
        Limit("key:ci/requests_per_minute", "rate", 600.0, burst=60.0),
        Limit("key:ci/concurrent", "concurrent", 5.0),
        Limit("key:ci/model:tiny/tokens_per_day", "period", 1000.0),
        Limit("team:blue/tokens_per_minute", "rate", 50_000.0, burst=5000.0),
        Limit("team:blue/model:tiny/usd_per_month", "period", 100.0),
    ) == plan_of(who).limits


def test_a_plan_has_the_limits_of_the_end_user_the_session_and_the_project() -> None:
    who = caller(
        key=Limits(concurrent=5),
        user=Limits(tokens_per_day=200),
        session=Limits(concurrent=4),
        project=Limits(usd_per_month=40.0),
        team=Limits(concurrent=50),
    )
    plan = made_plans().plan_for(who, TINY, "alice", "blue\0s-1")

    assert [
        ("key", "ci", "concurrent", 5.0),
        ("user", "alice", "tokens_per_day", 200.0),
        ("session", "s-1", "concurrent", 4.0),
        ("project", "search", "usd_per_month", 40.0),
        ("team", "blue", "concurrent", 50.0),
    ] == [(each.scope, each.name, each.measure, each.limit.amount) for each in plan.scoped]
    assert ["project:search/usd_per_month", "team:blue/concurrent"] == [each.id for each in plan.limits[3:]]


def test_requests_without_an_end_user_share_limits_and_those_without_a_session_have_none() -> None:
    who = caller(user=Limits(concurrent=2), session=Limits(concurrent=4))
    plan = made_plans().plan_for(who, TINY)

    assert ["user:/concurrent"] == [each.id for each in plan.limits]


def test_each_name_has_its_own_limits_whatever_it_contains() -> None:
    who = caller(user=Limits(concurrent=2), session=Limits(concurrent=4))
    made = made_plans()
    names = ["a", "b", "a/concurrent", "a/model:tiny", "user:a", "x" * 256, "x" * 255 + "y", "\0"]
    ids = {limit.id for name in names for limit in made.plan_for(who, TINY, name, "blue\0" + name).limits}

    assert 2 * len(names) == len(ids)
    assert {True} == {len(each) < 64 for each in ids}
    assert made.plan_for(who, TINY, "a", "blue\0s") is made.plan_for(who, TINY, "a", "blue\0s")


def test_a_raise_applies_until_it_ends() -> None:
    raises = (
        LimitRaise("r1", "team", "blue", "tokens_per_minute", 90_000.0, NOW + 60.0, "launch"),
        LimitRaise("r2", "user", "alice", "tokens_per_day", 900.0, NOW + 30.0, "evaluation"),
    )
    who = caller(user=Limits(tokens_per_day=200), team=Limits(tokens_per_minute=50_000), raises=raises)
    made = made_plans()
    found = [
        [limit.amount for limit in made.plan_for(who, TINY, user, now=NOW + later).limits]
        for later, user in ((0.0, "alice"), (0.0, "bob"), (30.0, "alice"), (59.0, "bob"), (60.0, "alice"))
    ]

    assert [[900, 90_000], [200, 90_000], [200, 90_000], [200, 90_000], [200, 50_000]] == found
    assert made.plan_for(who, TINY, "bob", now=NOW + 61.0) is made.plan_for(who, TINY, "bob", now=NOW + 99.0)


def test_a_team_without_such_limits_has_one_plan_for_all_names() -> None:
    who, made = caller(key=Limits(concurrent=1)), made_plans()

    assert made.plan_for(who, TINY, "alice", "blue\0s-1") is made.plan_for(who, TINY)


def test_many_names_leave_few_made_plans() -> None:
    who, made = caller(user=Limits(concurrent=2)), made_plans()
    for number in range(2500):
        made.plan_for(who, TINY, f"user-{number}")

    assert 2500 - 2048 == len(made)


@pytest.mark.parametrize(
    ("amount", "share", "burst"),
    [(3, 0.1, 3.0), (5, 0.1, 5.0), (10, 0.1, 5.0), (600, 0.1, 60.0), (600, 1.0, 600.0), (1, 0.1, 1.0)],
)
def test_a_burst_has_room_for_the_first_requests(amount: int, share: float, burst: float) -> None:
    """Five, or as many as there are: a client that begins with a few beside each other is not refused."""
    assert burst == plan_of(caller(key=Limits(requests_per_minute=amount)), burst=share).limits[0].burst


def test_a_burst_of_tokens_has_room_for_one_at_least() -> None:
    assert 1.0 == plan_of(caller(key=Limits(tokens_per_minute=5))).limits[0].burst


def test_each_limit_takes_what_it_counts() -> None:
    every = Limits(
        requests_per_minute=1000,
        input_tokens_per_minute=1000,
        output_tokens_per_minute=1000,
        tokens_per_minute=1000,
        concurrent=1000,
        tokens_per_day=1000,
        usd_per_day=1000.0,
        usd_per_month=1000.0,
    )
    charges = plan_of(caller(key=every)).charges(Tokens(100.0, 0.0, 20.0), 0.5, NOON)

    assert {
        "key:ci/requests_per_minute": 1.0,
        "key:ci/input_tokens_per_minute": 100.0,
        "key:ci/output_tokens_per_minute": 20.0,
        "key:ci/tokens_per_minute": 120.0,
        "key:ci/concurrent": 1.0,
        "key:ci/tokens_per_day": 120.0,
        "key:ci/usd_per_day": 0.5,
        "key:ci/usd_per_month": 0.5,
    } == units_of(charges)


def test_cached_tokens_weigh_less_and_money_is_what_the_price_says() -> None:
    """Cached tokens weigh less. Fractions of tokens keep six digits."""
    who = caller(key=Limits(input_tokens_per_minute=1000, tokens_per_minute=1000, tokens_per_day=1000, usd_per_day=1.0))
    charges = plan_of(who, cached_weight=1 / 3).charges(Tokens(100.0, 70.0, 20.0), 0.25, NOON)

    assert {
        "key:ci/input_tokens_per_minute": 53.333333,
        "key:ci/tokens_per_minute": 73.333333,
        "key:ci/tokens_per_day": 73.333333,
        "key:ci/usd_per_day": 0.25,
    } == units_of(charges)
    whole = plan_of(who, cached_weight=1.0).charges(Tokens(100.0, 70.0, 20.0), 0.25, NOON)
    free = plan_of(who, cached_weight=0.0).charges(Tokens(100.0, 70.0, 20.0), 0.25, NOON)
    assert 120.0 == units_of(whole)["key:ci/tokens_per_minute"]
    assert 50.0 == units_of(free)["key:ci/tokens_per_minute"]


def test_budgets_take_the_longest_answer_and_minutes_the_expected_one() -> None:
    """Should the outcome never be known, budgets are charged with what was expected as well."""
    who = caller(
        key=Limits(output_tokens_per_minute=1000, tokens_per_minute=1000, tokens_per_day=1000, usd_per_day=1.0)
    )
    charges = plan_of(who).charges(Tokens(100.0, 0.0, 20.0), 0.25, NOON, most_completion=500.0, most_usd=0.75)

    assert {
        "key:ci/output_tokens_per_minute": 20.0,
        "key:ci/tokens_per_minute": 120.0,
        "key:ci/tokens_per_day": 600.0,
        "key:ci/usd_per_day": 0.75,
    } == units_of(charges)
    assert [20.0, 120.0, 120.0, 0.25] == [charge.likely for charge in charges]


def test_a_request_that_failed_takes_nothing_of_anything() -> None:
    who = caller(key=Limits(requests_per_minute=600, tokens_per_day=1000, concurrent=5))
    plan = plan_of(who)

    nothing = plan.nothing(NOON)

    assert list(plan.limits) == [charge.limit for charge in nothing]
    assert {0.0} == {charge.units for charge in nothing}


def test_periods_have_the_names_of_the_calendar() -> None:
    who = caller(team=Limits(tokens_per_day=1000, usd_per_month=10.0, concurrent=1))
    day, month, slots = sorted(
        plan_of(who).charges(Tokens(1.0, 0.0, 1.0), 0.1, NOON), key=lambda charge: charge.period, reverse=True
    )

    assert ("2026-11-18", 12 * 3600.0) == (day.period, day.period_left_s)
    assert ("2026-11", 12.5 * 86_400) == (month.period, month.period_left_s)
    assert ("", 0.0) == (slots.period, slots.period_left_s)


def test_a_caller_has_one_plan_and_a_new_caller_another() -> None:
    made = Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(UTC))
    who = caller(key=Limits(concurrent=1))
    same = caller(key=Limits(concurrent=1))
    large = Metered("large", PRICE.cost_usd)

    assert made.plan_for(who, TINY) is made.plan_for(who, TINY)
    assert made.plan_for(who, TINY) is not made.plan_for(same, TINY)
    assert made.plan_for(who, TINY) is not made.plan_for(who, large)
    assert 2.0 == made.plan_for(caller(key=Limits(concurrent=2)), TINY).limits[0].amount


def test_callers_that_are_gone_take_no_memory_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MOST_PLANS", 10)
    made = Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(UTC))
    for amount in range(1, 100):
        assert amount == made.plan_for(caller(key=Limits(concurrent=amount)), TINY).limits[0].amount
        assert len(made) <= 10


@pytest.mark.parametrize(
    ("zone", "when", "day", "day_left_h", "month", "month_left_h"),
    [
        ("UTC", "2026-11-18T12:00+00:00", "2026-11-18", 12.0, "2026-11", 12.5 * 24),
        ("Europe/Berlin", "2026-11-18T23:30+00:00", "2026-11-19", 23.5, "2026-11", 12 * 24 - 0.5),
        ("Europe/Berlin", "2026-12-31T23:00+00:00", "2027-01-01", 24.0, "2027-01", 31 * 24),
        # Clocks go forward on 29 March, back on 25 October.
        ("Europe/Berlin", "2026-03-28T23:00+00:00", "2026-03-29", 23.0, "2026-03", 3 * 24 - 1),
        ("Europe/Berlin", "2026-10-24T22:00+00:00", "2026-10-25", 25.0, "2026-10", 7 * 24 + 1),
        ("America/Los_Angeles", "2026-03-01T08:00+00:00", "2026-03-01", 24.0, "2026-03", 31 * 24 - 1),
        ("Asia/Kolkata", "2028-02-28T18:30+00:00", "2028-02-29", 24.0, "2028-02", 24.0),
        # There is no midnight: at 0:00 clocks go to 1:00.
        ("Africa/Cairo", "2026-04-23T21:00+00:00", "2026-04-23", 1.0, "2026-04", 7 * 24),
        ("Africa/Cairo", "2026-04-23T22:00+00:00", "2026-04-24", 23.0, "2026-04", 7 * 24 - 1),
    ],
)
def test_days_and_months_are_those_of_the_time_zone(
    zone: str, when: str, day: str, day_left_h: float, month: str, month_left_h: float
) -> None:
    now = datetime.fromisoformat(when).timestamp()
    calendar = Calendar(ZoneInfo(zone))

    assert (("", day, month), (0.0, day_left_h * 3600, month_left_h * 3600)) == calendar.periods(now)


ZONES = sorted(
    name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "posix", "right"))
)


@given(
    st.sampled_from(ZONES),
    st.lists(st.floats(0.0, 3 * 366 * 86_400.0), min_size=1, max_size=5),
)
def test_a_day_ends_where_the_next_one_begins(zone: str, offsets: list[float]) -> None:
    """In every time zone, and also if time jumps, back as well."""
    calendar, fresh = Calendar(ZoneInfo(zone)), ZoneInfo(zone)
    for offset in offsets:
        now = NOW + offset
        (_, day, month), (_, left_s, month_left_s) = calendar.periods(now)

        assert datetime.fromtimestamp(now, fresh).strftime("%Y-%m-%d") == day
        assert day.startswith(month)
        assert 0.0 < left_s <= 25.5 * 3600
        assert left_s <= month_left_s <= 31 * 86_400 + 3600
        before, after = (datetime.fromtimestamp(now + left_s + d, fresh) for d in (-0.01, 0.01))
        assert before.strftime("%Y-%m-%d") == day
        assert after.date() == before.date() + timedelta(days=1)
