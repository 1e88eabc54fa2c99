"""Plan holds and charges decide alike."""

import random
from datetime import UTC, datetime

import pytest

from gateway.tenancy.quota.limit import Granted, Level
from gateway.tenancy.quota.meters import Meters, MeterState, PlanHold, PlanMeters
from gateway.tenancy.quota.plan import Calendar, Metered, Plan, Plans, Tokens
from gateway.tenancy.teams.limits import Limits
from tests.gateway.tenancy.quota.examples import NOW, caller

LIMITS = Limits(
    requests_per_minute=600,
    input_tokens_per_minute=60_000,
    output_tokens_per_minute=30_000,
    tokens_per_minute=80_000,
    concurrent=6,
    tokens_per_day=400_000,
    usd_per_day=3.0,
    usd_per_month=5.0,
)
PER_TOKEN = 1e-5
"""US dollars, of answers that are longer than expected."""


def request_of(plan: Plan, tokens: Tokens, cost_usd: float, until: float, *, longer: float = 0.0) -> PlanHold:
    """*tokens* at *cost_usd*; its answer may be *longer*, at `PER_TOKEN`."""
    request = PlanHold()
    request.meters = plan.meters
    request.prompt, request.both = plan.weighted(tokens.prompt, tokens.cached, tokens.completion)
    request.completion = tokens.completion
    request.most_both = plan.weighted(tokens.prompt, tokens.cached, tokens.completion + longer)[1]
    request.usd = cost_usd + longer * PER_TOKEN
    request.likely_usd = cost_usd
    request.until = until
    return request


class Twins:
    """The same limits twice: with plan holds, and with charges."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.short, self.long = Meters(), Meters()
        self.plan = Plans(burst=0.1, cached_weight=0.25, calendar=Calendar(UTC)).plan_for(
            caller(key=limits), Metered("tiny", lambda *_: 0.0)
        )
        self.now = NOW
        self.live: dict[str, tuple[PlanHold | None, Tokens, float]] = {}
        self.number = 0
        self.at_length = 0
        """Requests that both counted with charges."""

    def look_up(self, reservation: str) -> None:
        held = self.short.held(reservation)
        assert held is not None
        self.plan.meters = PlanMeters(self.plan.plan_limits, held.meters)

    def reserve(self, tokens: Tokens, cost_usd: float, *, longer: float = 0.0, lease_s: float = 1e9) -> bool:
        self.number += 1
        name, until = f"r{self.number}", self.now + lease_s
        charges = self.plan.charges(
            tokens,
            cost_usd,
            self.now,
            most_completion=tokens.completion + longer,
            most_usd=cost_usd + longer * PER_TOKEN,
        )
        expected = self.long.reserve("blue", name, charges, self.now, until=until)
        meters = self.plan.meters
        if meters is not None:
            self.plan.set_periods(meters, self.now)
        request = None if meters is None else request_of(self.plan, tokens, cost_usd, until, longer=longer)
        if meters is not None and request is not None and self.short.reserve_plan(request, self.now):
            assert meters.granted == expected
        else:
            request = None
            assert expected == self.short.reserve("blue", name, charges, self.now, until=until)
            if isinstance(expected, Granted):
                self.at_length += 1
                self.look_up(name)
        if isinstance(expected, Granted):
            self.live[name] = request, tokens, cost_usd
        return isinstance(expected, Granted)

    def settle(self, name: str, tokens: Tokens, cost_usd: float, *, is_nothing: bool) -> None:
        request, *_ = self.live.pop(name)
        plan = self.plan
        charges = plan.nothing(self.now) if is_nothing else plan.charges(tokens, cost_usd, self.now)
        assert self.long.settle(name, charges) is not None
        if request is None:
            assert self.short.settle(name, charges) is not None
            return
        prompt, both = (0.0, 0.0) if is_nothing else plan.weighted(tokens.prompt, tokens.cached, tokens.completion)
        one, completion = (0.0, 0.0) if is_nothing else (1.0, tokens.completion)
        used = {"one": one, "prompt": prompt, "completion": completion, "both": both, "usd": cost_usd}
        assert self.short.settle_plan(request, **used)
        assert not self.short.settle_plan(request, **used)

    def expire(self) -> None:
        ended = self.short.expire_plans(self.now)
        assert len(self.long.expire(self.now)) == len(ended) + len(self.short.expire(self.now))
        for name in [name for name, (request, *_) in self.live.items() if request in ended]:
            del self.live[name]

    def check(self) -> None:
        assert len(self.long) == len(self.short)
        states = {state.limit: state for state in self.short.states(self.now)}
        for state in self.long.states(self.now):
            assert _near(state) == _near(states.pop(state.limit))
        assert not states


def _near(state: MeterState) -> tuple[object, ...]:
    return state.limit, state.period, pytest.approx(state.value, abs=1e-6), pytest.approx(state.ends, abs=1e-6)


def some_tokens(rng: random.Random) -> Tokens:
    prompt = rng.choice([1.0, 300.0, rng.uniform(0.0, 4000.0), 70_000.0])
    return Tokens(prompt, rng.choice([0.0, prompt * rng.random()]), float(rng.randrange(2000)))


@pytest.mark.parametrize("seed", range(40))
def test_plan_holds_decide_like_charges(seed: int) -> None:
    """Grants, refusals, refunds, overruns, leases that end, days and months that begin, and what is forgotten."""
    rng = random.Random(seed)
    twins = Twins()
    for _ in range(150):
        step = rng.random()
        if step < 0.5:
            longer, lease_s = rng.choice([0.0, 0.0, 5000.0]), rng.choice([30.0, 1e9])
            twins.reserve(some_tokens(rng), rng.uniform(0.0, 0.1), longer=longer, lease_s=lease_s)
        elif step < 0.8 and twins.live:
            is_nothing = rng.random() < 0.2
            cost_usd = 0.0 if is_nothing else rng.uniform(0.0, 0.2)
            twins.settle(rng.choice(list(twins.live)), some_tokens(rng), cost_usd, is_nothing=is_nothing)
        elif step < 0.97:
            twins.now += rng.choice([0.001, 0.2, 3.0, 40.0]) * rng.random()
        else:
            twins.now += rng.choice([400.0, 30_000.0])
            for each in (twins.short, twins.long):
                each.forget(twins.now)
        if rng.random() < 0.05:
            for name in [name for name, (request, *_) in twins.live.items() if request is None]:
                twins.settle(name, some_tokens(rng), 0.0, is_nothing=False)
            twins.expire()
        twins.check()


def test_only_the_first_request_needs_charges() -> None:
    twins = Twins()
    for _ in range(5):
        assert twins.reserve(Tokens(300.0, 0.0, 100.0), 0.01)

    assert 1 == twins.at_length


def test_a_new_day_finds_new_meters() -> None:
    twins = Twins()
    twins.now = datetime(2026, 11, 18, 23, 59, 30, tzinfo=UTC).timestamp()
    twins.reserve(Tokens(300.0, 0.0, 100.0), 0.01)
    twins.reserve(Tokens(300.0, 0.0, 100.0), 0.01)
    twins.now += 60.0
    twins.reserve(Tokens(300.0, 0.0, 100.0), 0.01)
    assert twins.reserve(Tokens(300.0, 0.0, 100.0), 0.01)

    assert 2 == twins.at_length
    twins.check()


def test_meters_in_use_are_not_forgotten() -> None:
    twins = Twins(Limits(concurrent=2, requests_per_minute=600))
    twins.reserve(Tokens(1.0, 0.0, 1.0), 0.0)
    twins.reserve(Tokens(1.0, 0.0, 1.0), 0.0)
    twins.settle("r1", Tokens(1.0, 0.0, 1.0), 0.0, is_nothing=False)
    twins.short.forget(twins.now + 1e6)

    assert twins.reserve(Tokens(1.0, 0.0, 1.0), 0.0)
    assert not twins.reserve(Tokens(1.0, 0.0, 1.0), 0.0)
    assert 1 == twins.at_length


def test_another_plan_of_the_same_limit_may_give_more() -> None:
    """This happens after a change of settings; requests that began before keep the former plan."""
    calendar = Calendar(UTC)
    meters = Meters()
    plans = Plans(burst=1.0, cached_weight=1.0, calendar=calendar)
    model = Metered("tiny", lambda *_: 0.0)
    former, latter = (plans.plan_for(caller(key=Limits(requests_per_minute=amount)), model) for amount in (2, 4))
    charges = former.charges(Tokens(0.0, 0.0, 0.0), 0.0, NOW)
    meters.reserve("blue", "r", charges, NOW)
    held = meters.held("r")
    assert held is not None
    for plan in (former, latter):
        plan.meters = PlanMeters(plan.plan_limits, held.meters)

    taken = [
        meters.reserve_plan(request_of(plan, Tokens(0.0, 0.0, 0.0), 0.0, 1e12), NOW)
        for plan in (latter, former, latter, latter)
    ]

    assert [True, False, True, False] == taken
    assert latter.meters is not None
    assert (Level(0.0, 60.0),) == latter.meters.granted.levels


def test_nothing_is_reserved_without_meters() -> None:
    meters = Meters()
    taken = PlanHold()

    assert not meters.reserve_plan(taken, NOW)
    assert not meters.settle_plan(taken, one=0.0, prompt=0.0, completion=0.0, both=0.0, usd=0.0)
    assert 0 == len(meters)
