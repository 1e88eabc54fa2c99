"""Meters of several processes with one table decide as the meters of one process would."""

import os
import random
from collections.abc import Iterator

import pytest

from gateway.tenancy.quota import checkpoints
from gateway.tenancy.quota.limit import BOTH, DAY, MOST, NEVER, ONE, Charge, Granted, Limit, PlanLimit, Refused
from gateway.tenancy.quota.meter_table import MeterTable, new_table
from gateway.tenancy.quota.meters import Meters, MeterState, PlanHold, PlanMeters
from gateway.tenancy.quota.shared_meters import SharedMeters
from tests.gateway.tenancy.quota.examples import BUDGET, DAY_S, NOW, REQUESTS, SLOTS, TOKENS, usd

PROCESSES = 3
LIMITS = (TOKENS, REQUESTS, SLOTS, Limit("key:ci/tokens_per_day", "period", 2000.0), BUDGET)


@pytest.fixture
def table() -> Iterator[MeterTable]:
    made = new_table(PROCESSES, capacity=1024)
    yield made
    os.close(made.descriptor)


def processes(table: MeterTable, *, alert: float = checkpoints.NEVER, max_limits: int = 20_000) -> list[SharedMeters]:
    views = [MeterTable(table.descriptor, seat) for seat in range(PROCESSES)]
    return [SharedMeters(view, alert=alert, max_limits=max_limits) for view in views]


def charges_of(rng: random.Random, now: float) -> list[Charge]:
    day, past_s = divmod(now, DAY_S)
    charges = []
    for limit in LIMITS:
        if rng.random() < 0.3:
            continue
        units = 1.0 if limit.kind == "concurrent" else rng.uniform(0.0, 0.4 * (limit.burst or limit.amount))
        if limit.kind == "period":
            charges.append(Charge(limit, units, f"{day:.0f}", DAY_S - past_s, units * rng.random()))
        else:
            charges.append(Charge(limit, units))
    return charges


class Worlds:
    """The same clients at several processes with one table, and at one process alone."""

    def __init__(self, table: MeterTable, rng: random.Random) -> None:
        self.rng = rng
        self.now = NOW
        self.several = processes(table)
        self.alone = Meters(alert=checkpoints.NEVER)
        self.live: dict[str, tuple[SharedMeters, list[Charge]]] = {}

    def reserve(self, reservation: str) -> None:
        one, charges = self.rng.choice(self.several), charges_of(self.rng, self.now)
        answers = [
            meters.reserve("blue", reservation, charges, self.now, until=self.now + 300.0)
            for meters in (one, self.alone)
        ]
        assert answers[0] == answers[1]
        if isinstance(answers[0], Granted):
            self.live[reservation] = one, charges

    def settle(self, reservation: str) -> None:
        one, reserved = self.live.pop(reservation)
        used = [
            Charge(each.limit, each.units * self.rng.choice([0.0, 1.0, self.rng.random(), 2.0])) for each in reserved
        ]
        one.settle(reservation, used)
        self.alone.settle(reservation, used)

    def refund(self) -> None:
        day, past_s = divmod(self.now, DAY_S)
        given = [Charge(BUDGET, self.rng.random(), f"{day:.0f}", DAY_S - past_s)]
        for meters in (self.rng.choice(self.several), self.alone):
            meters.refund("blue", given, self.now)

    def forget(self) -> None:
        one = self.rng.choice(self.several)
        one.forget(self.now)
        while one.free_unused(self.now):
            pass
        self.alone.forget(self.now)

    def check_spent(self) -> None:
        day, past_s = divmod(self.now, DAY_S)
        asked = [Charge(limit, 0.0, f"{day:.0f}", DAY_S - past_s) for limit in LIMITS if limit.kind == "period"]
        expected = self.alone.spent("blue", asked, self.now)
        assert [expected] * PROCESSES == [meters.spent("blue", asked, self.now) for meters in self.several]


@pytest.mark.parametrize("block", range(10))
def test_several_processes_decide_as_one(block: int, table: MeterTable) -> None:
    """A hundred worlds of eighty steps each, to the last bit: grants, levels, waits, and what is spent."""
    for seed in range(100 * block, 100 * (block + 1)):
        rng = random.Random(seed)
        fresh = new_table(PROCESSES, capacity=64)
        worlds = Worlds(fresh, rng)
        for step in range(80):
            action = rng.random()
            if action < 0.5:
                worlds.reserve(f"r{step}")
            elif action < 0.8 and worlds.live:
                worlds.settle(rng.choice(list(worlds.live)))
            elif action < 0.95:
                worlds.now += rng.choice([0.001, 0.2, 3.0, 40.0, 30_000.0]) * rng.random()
            elif action < 0.97:
                worlds.refund()
            else:
                worlds.forget()
        worlds.check_spent()
        os.close(fresh.descriptor)


PLAN = [PlanLimit(REQUESTS, ONE, NEVER), PlanLimit(TOKENS, BOTH, NEVER), PlanLimit(LIMITS[3], MOST, DAY)]


def planned(meters: SharedMeters, reservation: str) -> PlanMeters:
    """Return the meters of `PLAN` after one request, which is settled."""
    charges = [Charge(REQUESTS, 1.0), Charge(TOKENS, 1.0), Charge(LIMITS[3], 1.0, "2026-11-18", DAY_S)]
    assert isinstance(meters.reserve("blue", reservation, charges, NOW), Granted)
    held = meters.held(reservation)
    assert held is not None
    found = PlanMeters(PLAN, held.meters)
    found.day, found.day_left_s = "2026-11-18", DAY_S
    meters.settle(reservation, charges)
    return found


def hold(meters: PlanMeters, units: float) -> PlanHold:
    made = PlanHold()
    made.meters, made.both, made.most_both = meters, units, units
    return made


def test_plans_of_several_processes_share_their_limits(table: MeterTable) -> None:
    """What one has left is what the other gets."""
    first, second, _ = processes(table)
    of_first, of_second = planned(first, "a"), planned(second, "b")

    assert first.reserve_plan(hold(of_first, 40.0), NOW)
    assert not second.reserve_plan(hold(of_second, 40.0), NOW)
    assert second.reserve_plan(ending := hold(of_second, 18.0), NOW)
    assert second.settle_plan(ending, one=0.0, prompt=0.0, completion=0.0, both=0.0, usd=0.0)
    assert not second.settle_plan(ending, one=0.0, prompt=0.0, completion=0.0, both=0.0, usd=0.0)
    assert first.reserve_plan(hold(of_first, 18.0), NOW)
    assert not first.reserve_plan(hold(of_first, 1.0), NOW)


def test_a_plan_whose_meter_was_dropped_is_looked_up_again(table: MeterTable) -> None:
    first, *_ = processes(table)
    found = planned(first, "a")
    first.forget(NOW + 2 * DAY_S)

    assert not first.reserve_plan(hold(found, 1.0), NOW + 2 * DAY_S)


def test_a_reservation_that_is_settled_or_unknown_changes_nothing(table: MeterTable) -> None:
    first, second, _ = processes(table)
    first.reserve("blue", "a", [Charge(SLOTS, 1.0)], NOW)

    assert second.settle("a", [Charge(SLOTS, 1.0)]) is None
    assert not second.settle_plan(PlanHold(), one=0.0, prompt=0.0, completion=0.0, both=0.0, usd=0.0)
    assert not second.reserve_plan(PlanHold(), NOW)
    assert isinstance(second.reserve("blue", "b", [Charge(SLOTS, 1.0)], NOW), Granted)
    assert isinstance(second.reserve("blue", "c", [Charge(SLOTS, 1.0)], NOW), Refused)


def test_refused_names_leave_no_slots(table: MeterTable) -> None:
    """Otherwise callers could fill the table with names of end users."""
    first, *_ = processes(table)
    for number in range(2 * 1024):
        user = Limit(f"user:{number}/requests_per_minute", "rate", 60.0, burst=6.0)
        charges = [Charge(user, 1.0), Charge(TOKENS, 1000.0)]
        assert isinstance(first.reserve("blue", f"r{number}", charges, NOW), Refused)


def test_only_the_first_process_restores_states(table: MeterTable) -> None:
    first, second, _ = processes(table)
    first.restore([MeterState("blue", BUDGET.id, 0.7, "2026-11-18", NOW + DAY_S)])
    first.restore([MeterState("blue", TOKENS.id, NOW + 4.0, "", NOW + 4.0)])
    second.restore([MeterState("blue", BUDGET.id, 0.1, "2026-11-18", NOW + DAY_S)])

    assert [0.7] == second.spent("blue", [usd(0.0)], NOW)
    answer = second.reserve("blue", "a", [Charge(TOKENS, 0.0)], NOW)
    assert isinstance(answer, Granted)
    assert TOKENS.burst == answer.levels[0].remaining


def test_restored_buckets_are_as_empty_as_before(table: MeterTable) -> None:
    first, second, _ = processes(table)
    first.restore([MeterState("blue", TOKENS.id, NOW + 4.0, "", NOW + 4.0)])

    answer = second.reserve("blue", "a", [Charge(TOKENS, 0.0)], NOW)
    assert isinstance(answer, Granted)
    assert 20.0 == pytest.approx(answer.levels[0].remaining)


def test_one_process_writes_a_due_checkpoint(table: MeterTable) -> None:
    """The next one is due beyond the checkpoint, for whichever process gets there."""
    first, second, _ = processes(table)
    first.reserve("blue", "a", [usd(0.2)], NOW)
    (due,) = first.alerted
    first.alerted.clear()
    due.checkpoint, due.alert = 0.5, 0.4
    first.publish_checkpoints([due])
    first.reserve("blue", "b", [usd(0.25)], NOW)
    second.reserve("blue", "c", [usd(0.01)], NOW)
    assert ([due], []) == (first.alerted, second.alerted)

    second.reserve("blue", "d", [usd(0.1)], NOW)
    assert [0.5] == [meter.checkpoint for meter in second.alerted]


def test_the_last_process_knows_exactly_what_all_have_counted(table: MeterTable) -> None:
    first, second, _ = processes(table)
    for each in (first, second):
        each.restore([])
    first.reserve("blue", "a", [usd(0.25)], NOW)
    second.reserve("blue", "b", [usd(0.5)], NOW)
    first.reserve("red", "c", [Charge(TOKENS, 10.0)], NOW)
    second.reserve("red", "d", [Charge(TOKENS, 10.0)], NOW)
    written = [
        MeterState("blue", BUDGET.id, 0.8, "2026-11-18", NOW + DAY_S / 2),
        MeterState("red", TOKENS.id, NOW + 5.0, "", NOW + 5.0),
    ]
    only_first = MeterState("red", REQUESTS.id, NOW + 5.0, "", NOW + 5.0)
    first.reserve("red", "e", [Charge(REQUESTS, 1.0)], NOW)
    first.leave()

    assert second.have_ended
    states = [*second.states(NOW), *second.exact([*written, only_first])]
    assert {("blue", BUDGET.id): 0.75, ("red", TOKENS.id): NOW + 2.0, ("red", REQUESTS.id): NOW + 1.0} == {
        (state.team, state.limit): pytest.approx(state.value) for state in states
    }


def test_leases_that_end_give_back_what_was_unlikely(table: MeterTable) -> None:
    first, second, _ = processes(table)
    first.reserve("blue", "a", [Charge(BUDGET, 0.9, "2026-11-18", DAY_S, 0.1)], NOW, until=NOW + 1.0)
    assert isinstance(second.reserve("blue", "b", [usd(0.5)], NOW), Refused)
    first.expire(NOW + 2.0)

    assert isinstance(second.reserve("blue", "c", [usd(0.5)], NOW), Granted)
