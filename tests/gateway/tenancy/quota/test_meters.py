"""The invariants of gateway/tenancy/quota/meters.py, one by one, and in random sequences."""

import math
import random
from collections import defaultdict
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cache_index.compiled import IS_COMPILED
from gateway.tenancy.quota import meters, plan, rate_headers
from gateway.tenancy.quota.limit import Charge, Granted, Level, Limit, Refused
from gateway.tenancy.quota.meters import Meters, MeterState
from tests.gateway.tenancy.quota.books import SLACK, Books
from tests.gateway.tenancy.quota.examples import BUDGET, DAY_S, NOW, REQUESTS, SLOTS, TOKENS, entry, usd


def reserve(meters: Meters, reservation: str, *charges: Charge, now: float = NOW) -> Granted | Refused:
    return meters.reserve("blue", reservation, charges, now)


def levels(meters: Meters, *charges: Charge, now: float = NOW) -> tuple[Level, ...]:
    """Return the state of the limits of *charges*, which have no units."""
    granted = meters.reserve("blue", "look", charges, now)
    meters.cancel("look")
    assert isinstance(granted, Granted)
    return granted.levels


def of_user(number: int) -> Charge:
    return Charge(Limit(f"user:{number}/tokens_per_day", "period", 100.0), 1.0, "2026-11-18", DAY_S / 2)


def test_a_crowd_of_end_users_is_refused_and_others_are_not() -> None:
    """Limits that operators name are always counted, and so are end users who are counted already."""
    meters = Meters(max_limits=3)
    for number in range(3):
        assert isinstance(reserve(meters, f"r{number}", of_user(number)), Granted)
    refused = reserve(meters, "r3", Charge(TOKENS, 1.0), of_user(3))

    assert Refused(1, 60.0, (Level(60.0, 0.0), Level(100.0, DAY_S / 2)), is_crowded=True) == refused
    assert isinstance(reserve(meters, "r4", Charge(TOKENS, 1.0)), Granted)
    assert isinstance(reserve(meters, "r5", of_user(0)), Granted)


def test_a_crowd_ends_when_limits_fall_out_of_use() -> None:
    meters = Meters(max_limits=3)
    for number in range(3):
        reserve(meters, f"r{number}", Charge(Limit(f"session:{number}/concurrent", "concurrent", 2.0), 1.0))
    assert isinstance(reserve(meters, "r3", of_user(3)), Refused)
    meters.cancel("r0")

    assert isinstance(reserve(meters, "r4", of_user(3), now=NOW + 0.5), Refused)
    assert isinstance(reserve(meters, "r5", of_user(3), now=NOW + 1.0), Granted)


def test_a_whole_team_may_fall_out_of_use() -> None:
    meters = Meters(max_limits=1)
    reserve(meters, "r0", of_user(0))
    meters.cancel("r0")

    assert isinstance(reserve(meters, "r1", of_user(1), now=NOW + DAY_S), Granted)
    assert isinstance(reserve(meters, "r2", of_user(2), now=NOW + DAY_S), Refused)


def test_a_crowd_does_not_shut_out_end_users_from_before_a_restart() -> None:
    former, meters = Meters(), Meters(max_limits=1)
    reserve(former, "r", of_user(7))
    meters.restore(former.states(NOW))
    reserve(meters, "r0", of_user(0))
    granted = reserve(meters, "r1", of_user(7))

    assert isinstance(granted, Granted)
    assert 98.0 == granted.levels[0].remaining


def test_refused_requests_add_no_end_users() -> None:
    meters = Meters(max_limits=2)
    for number in range(10):
        assert isinstance(reserve(meters, f"r{number}", of_user(number), usd(2.0)), Refused)
    granted = reserve(meters, "r", of_user(10))

    assert isinstance(granted, Granted)


def test_a_refusal_contains_the_level_of_every_limit() -> None:
    meters = Meters()
    reserve(meters, "a", Charge(TOKENS, 60.0), Charge(SLOTS, 1.0))

    refused = reserve(meters, "b", Charge(SLOTS, 1.0), Charge(TOKENS, 30.0), usd(0.5, left_s=10.0))

    assert Refused(1, 3.0, (Level(1.0, 0.0), Level(0.0, 6.0), Level(1.0, 10.0))) == refused


def test_a_reservation_ends_with_its_lease() -> None:
    """It is settled at what was reserved, and concurrent charges end. It cannot be settled later."""
    meters = Meters()
    lost = partial(entry, "lost")
    meters.reserve("blue", "a", [Charge(TOKENS, 40.0), Charge(SLOTS, 1.0)], NOW, until=NOW + 30.0, lost=lost)
    meters.reserve("blue", "b", [Charge(SLOTS, 1.0)], NOW, until=NOW + 40.0, lost=None)

    assert [] == meters.expire(NOW + 29.9)
    assert [lost] == [held.lost for held in meters.expire(NOW + 30.0)]
    assert [] == meters.expire(NOW + 30.0)
    assert meters.settle("a", [Charge(TOKENS, 0.0), Charge(SLOTS, 0.0)]) is None
    after = levels(meters, Charge(TOKENS, 0.0), Charge(SLOTS, 0.0))
    assert (Level(20.0, 4.0), Level(1.0, 0.0)) == after
    assert 1 == len(meters)


def test_a_cancelled_reservation_leaves_no_trace() -> None:
    meters = Meters()
    reserve(meters, "a", Charge(TOKENS, 40.0), Charge(SLOTS, 1.0), usd(0.5))

    assert meters.cancel("a") is not None
    assert meters.cancel("a") is None
    after = levels(meters, Charge(TOKENS, 0.0), Charge(SLOTS, 0.0), usd(0.0))
    assert [60.0, 2.0, 1.0] == [level.remaining for level in after]


def test_states_are_restored() -> None:
    """Reservations and void states are not restored."""
    former = Meters()
    full = Limit("key:ci/input_tokens_per_minute", "rate", 600.0, burst=60.0)
    reserve(former, "a", Charge(TOKENS, 40.0), usd(0.25), Charge(SLOTS, 2.0), Charge(full, 1.0))
    now = NOW + 1.0

    states = list(former.states(now))
    later = Meters()
    later.restore(states)

    assert [
        MeterState("blue", TOKENS.id, NOW + 4.0, "", NOW + 4.0),
        MeterState("blue", BUDGET.id, 0.25, "2026-11-18", NOW + DAY_S / 2),
    ] == states
    assert states == list(later.states(now))
    charges = [Charge(TOKENS, 0.0), usd(0.0), Charge(SLOTS, 0.0), Charge(full, 0.0)]
    assert [30.0, 0.75, 2.0, 60.0] == [level.remaining for level in levels(later, *charges, now=now)]
    assert states == list(later.states(now))


def test_a_state_of_a_period_that_is_over_says_nothing() -> None:
    meters = Meters()
    meters.restore([MeterState("blue", BUDGET.id, 0.9, "2026-11-17", NOW - 1.0)])

    assert isinstance(reserve(meters, "a", usd(1.0)), Granted)


def test_idle_limits_are_forgotten() -> None:
    meters = Meters()
    reserve(meters, "a", Charge(TOKENS, 60.0), usd(0.5, left_s=10.0))
    meters.settle("a", [Charge(TOKENS, 60.0), usd(0.5)])
    reserve(meters, "b", Charge(REQUESTS, 1.0))

    meters.forget(NOW + 5.0)
    assert [TOKENS.id, BUDGET.id] == [state.limit for state in meters.states(NOW)][:2]
    meters.forget(NOW + 20.0)
    assert [REQUESTS.id] == [state.limit for state in meters.states(NOW)]
    meters.settle("b", [Charge(REQUESTS, 1.0)])
    meters.forget(NOW + 20.0)
    assert [] == list(meters.states(NOW))


def test_meters_beyond_their_alert_are_listed() -> None:
    meters = Meters(alert=-math.inf)
    reserve(meters, "a", Charge(TOKENS, 10.0), Charge(SLOTS, 1.0))
    assert [TOKENS.id] == [meter.limit.id for meter in meters.alerted]

    meter = meters.alerted.pop()
    meter.alert = NOW + 1.0
    reserve(meters, "b", Charge(TOKENS, 0.0))
    assert [] == meters.alerted
    meters.settle("a", [Charge(TOKENS, 11.0), Charge(SLOTS, 0.0)])
    assert [meter] == meters.alerted


LIMITS = (
    TOKENS,
    Limit("team:blue/tokens_per_minute", "rate", 1000.0, burst=250.0),
    REQUESTS,
    SLOTS,
    Limit("key:ci/concurrent", "concurrent", 3.0),
    Limit("key:ci/tokens_per_day", "period", 2000.0),
    BUDGET,
)


class World:
    """Meters, a clock, and clients that reserve, settle, leave and forget."""

    def __init__(self) -> None:
        self.now = NOW
        self.meters = Meters()
        self.books = Books()
        self.live: dict[str, list[Charge]] = {}
        self.usage: dict[str, float] = defaultdict(float)
        """Final use by limit and period."""
        self.number = 0

    def charges(self, rng: random.Random) -> list[Charge]:
        charges = []
        for limit in LIMITS:
            if rng.random() < 0.3:
                continue
            if limit.kind == "rate":
                charges.append(Charge(limit, rng.choice([0.0, 1.0, rng.uniform(0.0, 1.3 * limit.burst)])))
            elif limit.kind == "concurrent":
                charges.append(Charge(limit, 1.0))
            else:
                day, past_s = divmod(self.now, DAY_S)
                units = rng.uniform(0.0, 0.4 * limit.amount)
                charges.append(Charge(limit, units, f"{day:.0f}", DAY_S - past_s))
        return charges

    def reserve(self, charges: list[Charge]) -> None:
        self.number += 1
        reservation = f"r{self.number}"
        before = list(self.meters.states(0.0))
        lease_s = 300.0 if self.number % 2 else 3 * DAY_S  # some are settled in another period
        answer = self.meters.reserve("blue", reservation, charges, self.now, until=self.now + lease_s)
        if isinstance(answer, Granted):
            self.books.grant(charges, self.now)
            self.live[reservation] = charges
            return
        touched = {charge.limit.id for charge in charges}
        after = {state.limit: state for state in self.meters.states(0.0)}
        for state in before:  # unchanged, except for a new period
            same = after[state.limit]
            assert state.limit not in touched or state == same or state.period != same.period

    def settle(self, reservation: str, used: list[Charge]) -> None:
        reserved = self.live.pop(reservation)
        assert self.meters.settle(reservation, used) is not None
        assert self.meters.settle(reservation, used) is None
        self._settled(reserved, used)

    def expire(self) -> None:
        for held in self.meters.expire(self.now):
            reservation = next(key for key, charges in self.live.items() if charges is held.charges)
            reserved = self.live.pop(reservation)
            self._settled(reserved, reserved)

    def _settled(self, reserved: list[Charge], used: list[Charge]) -> None:
        self.books.settle(reserved, used)
        for was, is_ in zip(reserved, used, strict=True):
            self.usage[f"{was.limit.id} {was.period}".strip()] += is_.units if was.limit.kind != "concurrent" else 0.0

    def check_end(self) -> None:
        """Check that everything is settled: reservations less refunds equal the use, and counters of periods agree."""
        assert not self.live
        assert 0 == len(self.meters)
        for place, used in self.usage.items():
            assert used == pytest.approx(self.books.balance[place], abs=SLACK)
        assert all(count == 0 for count in self.books.running.values())
        for state in self.meters.states(self.now):
            if state.period:
                assert state.value == pytest.approx(self.usage[f"{state.limit} {state.period}"], abs=SLACK)


def used_of(rng: random.Random, charges: list[Charge]) -> list[Charge]:
    """Return charges of a failed, aborted, normal or longer request."""
    share = rng.choice([0.0, rng.random(), 1.0, rng.uniform(1.0, 3.0)])
    return [Charge(charge.limit, charge.units * share, "any", 1.0) for charge in charges]


@pytest.mark.parametrize("block", range(10))
def test_limits_hold_whatever_clients_do(block: int) -> None:
    """Two hundred worlds of sixty steps each: grants, refunds, overruns, ended leases, and times of all sizes."""
    for seed in range(200 * block, 200 * (block + 1)):
        rng = random.Random(seed)
        world = World()
        for _ in range(60):
            action = rng.random()
            if action < 0.55:
                world.reserve(world.charges(rng))
            elif action < 0.8 and world.live:
                reservation = rng.choice(list(world.live))
                world.settle(reservation, used_of(rng, world.live[reservation]))
            elif action < 0.97:
                world.now += rng.choice([0.001, 0.2, 3.0, 40.0]) * rng.random()
            else:
                world.now += rng.choice([400.0, 30_000.0])
                world.expire()
                world.meters.forget(world.now)
        for reservation, charges in list(world.live.items()):
            world.settle(reservation, used_of(rng, charges))
        world.check_end()


@pytest.mark.parametrize("block", range(10))
def test_the_wait_of_a_sole_client_is_sufficient_and_necessary(block: int) -> None:
    """A client that waits the reported whole seconds is served, and would have been refused a second earlier."""
    limits = [limit for limit in LIMITS if limit.kind == "rate"]
    for seed in range(30 * block, 30 * (block + 1)):
        rng = random.Random(seed)
        meters, now = Meters(), NOW
        for step in range(40):
            charges = [Charge(limit, rng.uniform(0.1, rng.choice([0.2, 1.0, 2.0]) * limit.burst)) for limit in limits]
            answer = meters.reserve("blue", f"r{step}", charges, now)
            if isinstance(answer, Refused):
                retry_after_s = math.ceil(answer.wait_s)
                assert 0.0 < answer.wait_s < math.inf
                assert isinstance(meters.reserve("blue", f"early{step}", charges, now + answer.wait_s - 0.001), Refused)
                assert retry_after_s - answer.wait_s < 1.0
                answer = meters.reserve("blue", f"r{step}", charges, now + rng.choice([answer.wait_s, retry_after_s]))
                now += retry_after_s
            assert isinstance(answer, Granted)
            if rng.random() < 0.7:
                meters.settle(f"r{step}", used_of(rng, charges))
            now += rng.choice([0.0, 0.01, 1.0]) * rng.random()


@pytest.mark.parametrize("seed", range(20))
def test_a_year_of_doubles_decides_as_exact_numbers_would(seed: int) -> None:
    """The oracle is a bucket of fractions. Within a thousandth of a second of its limit, either answer is right."""
    rng = random.Random(seed)
    limit = Limit("key:ci/tokens_per_minute", "rate", 49_999.0, burst=7_001.0)
    unit_s = Fraction(60) / Fraction(limit.amount)
    meters, now, full_at = Meters(), NOW, Fraction(0)
    for step in range(1000):
        now += rng.choice([0.001, 0.5, 86_400.0]) * rng.random()
        units = float(rng.randrange(1, 9000))
        exact_now = Fraction(now)
        ahead_s = max(full_at, exact_now) - exact_now
        lacking_s = float(ahead_s + (min(units, limit.burst) - Fraction(limit.burst)) * unit_s)
        answer = meters.reserve("blue", f"r{step}", [Charge(limit, units)], now)
        if abs(lacking_s) > 0.001:
            assert (lacking_s <= 0.0) == isinstance(answer, Granted)
        if isinstance(answer, Granted):
            used = float(rng.randrange(2 * int(units)))
            full_at = exact_now + ahead_s + Fraction(used) * unit_s
            meters.settle(f"r{step}", [Charge(limit, used)])


class AnyOrder(RuleBasedStateMachine):
    """The same, with shrinking of failures."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.rng = random.Random(0)

    @rule(units=st.lists(st.integers(0, 60), min_size=len(LIMITS), max_size=len(LIMITS)))
    def reserve(self, units: list[int]) -> None:
        charges = []
        for limit, count in zip(LIMITS, units, strict=True):
            if limit.kind == "period":
                day, past_s = divmod(self.world.now, DAY_S)
                charges.append(Charge(limit, limit.amount * count / 100, f"{day:.0f}", DAY_S - past_s))
            elif count:
                charges.append(Charge(limit, 1.0 if limit.kind == "concurrent" else float(count)))
        self.world.reserve(charges)

    @precondition(lambda self: self.world.live)
    @rule(which=st.integers(0, 100), percent=st.integers(0, 300))
    def settle(self, which: int, percent: int) -> None:
        reservation = list(self.world.live)[which % len(self.world.live)]
        charges = self.world.live[reservation]
        self.world.settle(reservation, [Charge(c.limit, c.units * percent / 100) for c in charges])

    @rule(ms=st.integers(1, 100_000))
    def wait(self, ms: int) -> None:
        self.world.now += ms / 1000

    @rule(seconds=st.integers(1, 100_000))
    def expire(self, seconds: int) -> None:
        self.world.now += seconds
        self.world.expire()

    @rule()
    def forget(self) -> None:
        self.world.meters.forget(self.world.now)

    @invariant()
    def as_many_are_held_as_are_live(self) -> None:
        assert len(self.world.live) == len(self.world.meters)

    def teardown(self) -> None:
        for reservation, charges in list(self.world.live.items()):
            self.world.settle(reservation, charges)
        self.world.check_end()


AnyOrder.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
TestAnyOrder = AnyOrder.TestCase


def test_the_arithmetic_is_compiled_with_the_core() -> None:
    for module in (meters, plan, rate_headers):
        assert IS_COMPILED == (not str(module.__file__).endswith(".py"))


def test_settled_charges_name_the_reserved_limits() -> None:
    counted = Meters()
    counted.reserve("blue", "r", [Charge(TOKENS, 1.0)], NOW)

    with pytest.raises(ValueError, match="must name the same limits as its reservation"):
        counted.settle("r", [])
