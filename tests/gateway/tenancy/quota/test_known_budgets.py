"""Budgets of configured owners and of end users, with the same ids as in the plans of requests."""

from datetime import UTC

from gateway.tenancy.quota.known_budgets import known_budgets, user_budgets
from gateway.tenancy.quota.plan import Calendar, Metered, Plans
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limit_raise import LimitRaise
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team
from tests.gateway.tenancy.quota.examples import NOW

BLUE = Team(
    "blue",
    limits=Limits(usd_per_month=50.0, tokens_per_minute=10),
    model_limits={"tiny": Limits(tokens_per_day=900)},
    project_limits={"search": Limits(usd_per_day=2.0)},
    user_limits=Limits(usd_per_day=1.0, concurrent=1),
    raises=(
        LimitRaise("r1", "project", "search", "usd_per_day", 9.0, NOW + 1.0, "launch"),
        LimitRaise("r2", "user", "ann", "usd_per_day", 4.0, NOW + 1.0, "launch"),
    ),
)
CI = Key("ci", "blue", "0" * 64, project="search", limits=Limits(usd_per_day=5.0), model_limits={"tiny": Limits()})


def test_budgets_of_teams_projects_and_keys() -> None:
    """Limits per minute and of running requests are no budgets."""
    directory = Directory()
    directory.declare(Declared({"blue": BLUE}, {"ci": CI}))
    found = [(each.scoped.limit.id, each.scoped.limit.amount) for each in known_budgets(directory, NOW)]

    assert [
        ("team:blue/usd_per_month", 50.0),
        ("team:blue/model:tiny/tokens_per_day", 900.0),
        ("project:search/usd_per_day", 9.0),
        ("key:ci/usd_per_day", 5.0),
    ] == found


def test_budgets_of_end_users() -> None:
    found = [(each.scoped.name, each.scoped.limit.amount) for each in user_budgets(BLUE, ["ann", "bob"], NOW)]

    assert [("ann", 4.0), ("bob", 1.0)] == found


def test_the_limits_are_those_of_requests() -> None:
    """With another id, a budget would read as unused."""
    directory, calendar = Directory(), Calendar(UTC)
    directory.declare(Declared({"blue": BLUE}, {"ci": CI}))
    plans = Plans(burst=0.1, cached_weight=0.1, calendar=calendar)
    plan = plans.plan_for(Caller(BLUE, CI), Metered("tiny", lambda *_: 0.0), "ann", now=NOW)
    known = [*known_budgets(directory, NOW), *user_budgets(BLUE, ["ann"], NOW)]

    assert {each.id: each.amount for each in plan.limits if each.kind == "period"} == {
        each.scoped.limit.id: each.scoped.limit.amount for each in known
    }


def test_the_period_is_that_of_the_measure() -> None:
    directory, calendar = Directory(), Calendar(UTC)
    directory.declare(Declared({"blue": BLUE}, {}))
    monthly, daily, _ = known_budgets(directory, NOW)
    calendar.update(NOW)

    assert (calendar.month, calendar.day) == (monthly.period(calendar), daily.period(calendar))
    assert calendar.month_ends - NOW == monthly.nothing(calendar, NOW).period_left_s
