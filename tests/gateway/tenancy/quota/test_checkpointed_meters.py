"""Reservations by plan in the embedded store."""

from datetime import UTC
from functools import partial

import pytest

from gateway.tenancy.quota.embedded_store import EmbeddedQuotaStore
from gateway.tenancy.quota.limit import BOTH, DAY, NEVER, ONE, USD, Charge, Granted, Level, PlanLimit, Refused
from gateway.tenancy.quota.meters import PlanHold, PlanMeters
from gateway.tenancy.quota.output_length import Lengths
from gateway.tenancy.quota.plan import Calendar, Metered, Plan
from gateway.tenancy.quota.quota import Exposure, Reservation
from tests.contracts.embedded_quota import EmbeddedStage
from tests.contracts.quota_stage import LEASE_S
from tests.gateway.tenancy.quota.examples import BUDGET, DAY_S, NOW, SLOTS, TOKENS, entry, usd
from tests.gateway.tenancy.quota.watched_file import WatchedFile, running, until


def hold_of(meters: PlanMeters, name: str) -> Reservation:
    """Return a request for ten tokens and half a dollar."""
    plan = Plan([], cached_weight=1.0, calendar=Calendar(UTC))
    lost = partial(entry, f"lost-{name}")
    hold = Reservation(
        "r",
        1,
        team="blue",
        model=Metered("tiny", lambda *_: 0.0),
        plan=plan,
        lengths=Lengths(),
        exposure=Exposure(),
        asked=None,
        choices=1,
        lost=lambda _: lost(),
    )
    hold.meters = meters
    hold.both, hold.usd = 10.0, 0.5
    return hold


PLAN_LIMITS = [PlanLimit(TOKENS, BOTH, NEVER), PlanLimit(BUDGET, USD, DAY), PlanLimit(SLOTS, ONE, NEVER)]


async def plan_meters_of(store: EmbeddedQuotaStore) -> PlanMeters:
    """Return unused meters with checkpoints in the file."""
    await store.reserve("blue", "first", [Charge(TOKENS, 10.0), usd(0.5), Charge(SLOTS, 1.0)], partial(entry, "lost"))
    meters = store.in_memory.plan_meters("first", PLAN_LIMITS)
    assert meters is not None
    store.settle("blue", "first", [Charge(TOKENS, 0.0), usd(0.0), Charge(SLOTS, 0.0)], partial(entry, "first"))
    meters.day, meters.day_left_s = "2026-11-18", DAY_S / 2
    return meters


NOTHING = {"one": 0.0, "prompt": 0.0, "completion": 0.0, "both": 0.0, "usd": 0.0}


async def test_a_plan_hold_is_booked_once(stage: EmbeddedStage) -> None:
    hold = hold_of(await plan_meters_of(stage.store), "a")
    granted = stage.store.in_memory.reserve_plan(hold, stage.now)

    assert granted is not None
    assert (Level(50.0, 1.0), Level(0.5, DAY_S / 2), Level(1.0, 0.0)) == granted.levels
    used = {**NOTHING, "one": 1.0, "both": 600.0, "usd": 0.9}
    for _ in range(2):
        stage.store.in_memory.settle_plan(hold, partial(entry, "a"), **used)
    assert ["first", "a"] == [each.request_id for each in await stage.booked()]
    await stage.die()

    tokens = await stage.store.reserve("blue", "b", [Charge(TOKENS, 10.0)], partial(entry, "lost"))
    budget = await stage.store.reserve("blue", "c", [usd(0.11)], partial(entry, "lost"))

    assert isinstance(tokens, Refused)
    assert isinstance(budget, Refused)


async def test_a_plan_hold_that_is_not_settled_is_lost_with_its_lease(stage: EmbeddedStage) -> None:
    meters = await plan_meters_of(stage.store)
    hold = hold_of(meters, "a")
    assert stage.store.in_memory.reserve_plan(hold, stage.now) is not None

    await stage.advance(LEASE_S - 1.0)
    assert ["first"] == [each.request_id for each in await stage.booked()]
    await stage.advance(1.0)
    stage.store.in_memory.settle_plan(hold, partial(entry, "a"), **NOTHING)

    assert ["first", "lost-a"] == [each.request_id for each in await stage.booked()]
    slots = await stage.store.reserve("blue", "c", [Charge(SLOTS, 2.0)], partial(entry, "lost"))
    assert isinstance(slots, Granted)


async def test_a_plan_hold_does_not_pass_a_checkpoint(file: WatchedFile) -> None:
    """A request that needs the next one is not granted, and takes nothing."""
    async with running(file) as store:
        meters = await plan_meters_of(store)
        await until(lambda: store.waiting_entries == 0)
        file.is_away = True
        for each in meters.each:
            each.meter.checkpoint = each.meter.alert = min(each.meter.checkpoint, NOW + 0.5)
        hold = hold_of(meters, "a")

        assert store.in_memory.reserve_plan(hold, NOW) is None
        assert not hold.is_held
        file.is_away = False
        levels = await store.reserve("blue", "b", [Charge(TOKENS, 0.0), usd(0.0)], partial(entry, "lost"))
        assert isinstance(levels, Granted)
        assert [60.0, 1.0] == [level.remaining for level in levels.levels]


async def test_only_a_held_reservation_has_plan_meters(stage: EmbeddedStage) -> None:
    assert stage.store.in_memory.plan_meters("unknown", PLAN_LIMITS) is None
    assert stage.store.in_memory.reserve_plan(PlanHold(), stage.now) is None


async def test_a_decision_at_once_is_final(stage: EmbeddedStage) -> None:
    """Where a checkpoint is needed first, nothing is charged, and the store decides the same later."""
    decisions = []
    for number, units in enumerate((40.0, 30.0, 20.0, 1.0)):
        asked = ("blue", f"r-{number}", [Charge(TOKENS, units)], partial(entry, f"lost-{number}", outcome="lost"))
        decision = stage.store.in_memory.reserve_at_once(*asked)
        decisions.append(await stage.store.reserve(*asked) if decision is None else decision)

    assert [True, False, True, False] == [isinstance(each, Granted) for each in decisions]
    assert 0.0 == pytest.approx(decisions[2].levels[0].remaining, abs=0.001)
