"""Contract of every `QuotaStore`: all or nothing, sufficient waits, and each reservation settled once."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from gateway.tenancy.ledger.entry import Entry, no_entry
from gateway.tenancy.quota.limit import Charge, Granted, Limit, Refused
from gateway.tenancy.quota.meters import Meters
from tests.contracts.embedded_quota import embedded
from tests.contracts.quota_stage import LEASE_S, NOW, QuotaStage, entry
from tests.contracts.redis_quota import redis
from tests.contracts.shared_quota import shared

DAY_S = 86_400.0

TOKENS = Limit("key:ci/tokens_per_minute", "rate", 600.0, burst=60.0)
"""Ten a second."""
REQUESTS = Limit("key:ci/requests_per_minute", "rate", 60.0, burst=2.0)
BUDGET = Limit("team:blue/usd_per_day", "period", 1.0)
SLOTS = Limit("team:blue/concurrent", "concurrent", 2.0)

Open = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[QuotaStage]]

STAGES = [
    pytest.param(embedded, id="embedded"),
    pytest.param(shared, id="shared"),
    pytest.param(redis, id="redis", marks=pytest.mark.redis),
]


@pytest.fixture(params=STAGES)
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[QuotaStage]:
    open_: Open = request.param
    async with open_(request) as opened:
        yield opened


def usd(units: float, *, day: int = 18, left_s: float = DAY_S / 2) -> Charge:
    return Charge(BUDGET, units, f"2026-11-{day}", left_s)


class Numbers:
    """Reserves under its own ids, and ignores lost entries."""

    def __init__(self, stage: QuotaStage, team: str = "blue") -> None:
        self._stage = stage
        self._team = team
        self._number = 0
        self.last = ""

    async def __call__(self, *charges: Charge) -> Granted | Refused:
        self._number += 1
        self.last = f"{self._team}-{self._number}"
        lost = partial(entry, f"lost-{self.last}", outcome="lost", team=self._team)
        return await self._stage.store.reserve(self._team, self.last, charges, lost)


async def settle(stage: QuotaStage, reservation: str, *charges: Charge, team: str = "blue") -> None:
    """Settle, and wait until it is done."""
    stage.store.settle(team, reservation, charges, partial(entry, reservation, team=team))
    await stage.carried_out()


async def remaining(stage: QuotaStage, limit: Limit) -> float:
    """Return what is left of a rate. This takes nothing."""
    answer = await Numbers(stage, "blue")(Charge(limit, 0.0))
    assert isinstance(answer, Granted)
    return answer.levels[0].remaining


async def test_a_refusal_charges_nothing(stage: QuotaStage) -> None:
    """This holds for any order of the charges."""
    reserve = Numbers(stage)
    await reserve(Charge(SLOTS, 1.0))
    await reserve(Charge(SLOTS, 1.0))

    for _ in range(3):
        assert isinstance(await reserve(Charge(TOKENS, 60.0), Charge(SLOTS, 1.0), usd(0.5)), Refused)
        assert isinstance(await reserve(usd(0.5), Charge(SLOTS, 1.0), Charge(TOKENS, 60.0)), Refused)

    assert isinstance(await reserve(Charge(TOKENS, 60.0), usd(1.0)), Granted)


async def test_the_limit_that_takes_longest_binds(stage: QuotaStage) -> None:
    reserve = Numbers(stage)
    await reserve(Charge(TOKENS, 60.0), Charge(REQUESTS, 2.0))

    refused = await reserve(Charge(TOKENS, 1.0), Charge(REQUESTS, 1.0), usd(0.1))

    assert isinstance(refused, Refused)
    assert 1 == refused.binding
    assert 1.0 == pytest.approx(refused.wait_s, abs=0.0001)
    assert [0.0, 0.0, 1.0] == pytest.approx([level.remaining for level in refused.levels], abs=0.001)


async def test_a_refund_never_fills_beyond_the_burst(stage: QuotaStage) -> None:
    reserve = Numbers(stage)
    await reserve(Charge(TOKENS, 60.0))
    await stage.advance(5.0)
    await settle(stage, reserve.last, Charge(TOKENS, 0.0))

    assert 60.0 == pytest.approx(await remaining(stage, TOKENS), abs=0.001)
    assert isinstance(await reserve(Charge(TOKENS, 60.0)), Granted)
    assert isinstance(await reserve(Charge(TOKENS, 1.0)), Refused)


async def test_a_reservation_is_settled_and_booked_once(stage: QuotaStage) -> None:
    reserve = Numbers(stage)
    await reserve(Charge(TOKENS, 50.0), Charge(SLOTS, 1.0))
    settled = reserve.last
    await reserve(Charge(SLOTS, 1.0))
    for _ in range(3):
        stage.store.settle("blue", settled, [Charge(TOKENS, 20.0), Charge(SLOTS, 0.0)], partial(entry, settled))
    await stage.carried_out()
    stage.store.settle("blue", settled, [Charge(TOKENS, 0.0), Charge(SLOTS, 0.0)], partial(entry, settled))
    await stage.carried_out()

    assert 40.0 == pytest.approx(await remaining(stage, TOKENS), abs=0.001)
    assert isinstance(await reserve(Charge(SLOTS, 1.0)), Granted)
    assert isinstance(await reserve(Charge(SLOTS, 1.0)), Refused)
    assert [settled] == [each.record.request_id for each in await stage.booked()]


async def test_the_entry_is_booked_as_it_was_given(stage: QuotaStage) -> None:
    reserve = Numbers(stage)
    await reserve(Charge(TOKENS, 50.0))
    given = entry("request-1", tokens=17)
    stage.store.settle("blue", reserve.last, [Charge(TOKENS, 17.0)], lambda: given)
    await stage.carried_out()

    assert [given] == await stage.booked()


async def test_a_request_without_reservation_is_booked_too(stage: QuotaStage) -> None:
    entries = [entry(f"request-{i}") for i in range(3)]
    for each in entries:
        stage.store.book("blue", partial(Entry.from_record, each.day, each.record))
    waiting = stage.store.waiting_entries
    await stage.carried_out()

    assert entries == sorted(await stage.booked(), key=lambda each: each.record.request_id)
    assert (3, 0, 0) == (waiting, stage.store.waiting_entries, stage.store.dropped_entries)


async def test_a_request_without_charges_is_granted_and_booked(stage: QuotaStage) -> None:
    reserve = Numbers(stage)

    assert Granted(()) == await reserve()
    await settle(stage, reserve.last)

    assert [reserve.last] == [each.record.request_id for each in await stage.booked()]


async def test_a_request_whose_entry_is_written_elsewhere_is_only_charged(stage: QuotaStage) -> None:
    """Whether it ends, or its lease ends before."""
    store = stage.store
    for reservation in ("settled", "lost"):
        assert isinstance(await store.reserve("blue", reservation, [Charge(TOKENS, 30.0)], no_entry), Granted)
    store.settle("blue", "settled", [Charge(TOKENS, 10.0)], no_entry)
    store.book("blue", no_entry)
    await stage.carried_out()
    assert 20.0 == pytest.approx(await remaining(stage, TOKENS), abs=0.001)
    await stage.advance(LEASE_S + 60.0)
    assert isinstance(await store.reserve("blue", "later", [Charge(TOKENS, 1.0)], no_entry), Granted)
    await settle(stage, "later", Charge(TOKENS, 1.0))

    found = [each.request_id for each in await stage.booked()]
    assert ["later"] == [each for each in found if not each.startswith("lost-")]


async def test_a_calendar_that_is_behind_starts_no_period(stage: QuotaStage) -> None:
    """Gateways may see midnight at different moments: the period is that of the store."""
    reserve = Numbers(stage)
    await reserve(usd(0.5, left_s=1.0))
    await stage.advance(1.0)
    await reserve(usd(0.75, day=19, left_s=DAY_S))

    assert isinstance(await reserve(usd(0.5, day=18, left_s=0.0)), Refused)
    assert isinstance(await reserve(usd(0.5, day=19, left_s=DAY_S)), Refused)


async def test_a_late_settlement_does_not_change_the_next_period(stage: QuotaStage) -> None:
    reserve = Numbers(stage)
    await reserve(usd(0.5, left_s=1.0))
    more = reserve.last
    await reserve(usd(0.5, left_s=1.0))
    less = reserve.last
    await stage.advance(1.0)
    await reserve(usd(0.5, day=19, left_s=DAY_S))
    await settle(stage, more, usd(5.0, day=19, left_s=DAY_S))
    await settle(stage, less, usd(0.0, day=19, left_s=DAY_S))

    granted = await reserve(usd(0.25, day=19, left_s=DAY_S))

    assert isinstance(granted, Granted)
    assert 0.25 == pytest.approx(granted.levels[0].remaining)


async def test_teams_do_not_share_what_has_the_same_name(stage: QuotaStage) -> None:
    blue, red = Numbers(stage, "blue"), Numbers(stage, "red")
    await blue(Charge(TOKENS, 60.0))

    assert isinstance(await red(Charge(TOKENS, 60.0)), Granted)
    assert isinstance(await blue(Charge(TOKENS, 1.0)), Refused)


async def test_a_limit_that_changes_keeps_what_was_used(stage: QuotaStage) -> None:
    """The debt of a bucket is time, so a higher rate applies at once."""
    reserve = Numbers(stage)
    await reserve(Charge(TOKENS, 60.0), usd(0.75))
    faster = Limit(TOKENS.id, "rate", 6000.0, burst=600.0)
    richer = Limit(BUDGET.id, "period", 2.0)

    refused = await reserve(Charge(faster, 100.0), Charge(richer, 0.1, "2026-11-18", DAY_S / 2))
    await stage.advance(1.0)
    granted = await reserve(Charge(faster, 100.0), Charge(richer, 0.1, "2026-11-18", DAY_S / 2))

    assert isinstance(refused, Refused)
    assert 1.0 == pytest.approx(refused.wait_s, abs=0.0001)
    assert 1.25 == pytest.approx(refused.levels[1].remaining)
    assert isinstance(granted, Granted)


async def test_many_at_once_get_no_more_than_there_is(stage: QuotaStage) -> None:
    async def one(number: int) -> bool:
        charges = [Charge(TOKENS, 7.0), usd(0.05)]
        return isinstance(
            await stage.store.reserve("blue", f"r{number}", charges, partial(entry, f"lost-{number}")), Granted
        )

    granted = await asyncio.gather(*(one(number) for number in range(40)))

    assert 8 == sum(granted)


async def test_a_client_that_left_while_it_reserved_takes_nothing_for_long(stage: QuotaStage) -> None:
    """The caller has left and no one settles the reservation. If it was granted, its lease ends."""
    reserving = [asyncio.create_task(Numbers(stage, "blue")(Charge(SLOTS, 1.0)))]
    await asyncio.sleep(0)
    for task in reserving:
        task.cancel()
    await asyncio.wait(reserving)
    await stage.die()

    reserve = Numbers(stage, "blue")
    assert isinstance(await stage.store.reserve("blue", "x", [Charge(SLOTS, 1.0)], partial(entry, "x")), Granted)
    assert isinstance(await stage.store.reserve("blue", "y", [Charge(SLOTS, 1.0)], partial(entry, "y")), Granted)
    assert isinstance(await reserve(Charge(SLOTS, 0.0)), Granted)


async def test_a_gateway_that_ends_leaves_everything_written(stage: QuotaStage) -> None:
    """The next gateway continues with the same state, and the last bookings are in the ledger."""
    reserve = Numbers(stage)
    await reserve(Charge(TOKENS, 50.0), usd(0.5))
    stage.store.settle("blue", reserve.last, [Charge(TOKENS, 30.0), usd(0.25)], partial(entry, reserve.last))
    await stage.end()

    granted = await Numbers(stage, "blue")(Charge(TOKENS, 30.0), usd(0.75))

    assert isinstance(granted, Granted)
    assert [0.0, 0.0] == pytest.approx([level.remaining for level in granted.levels], abs=0.001)
    assert [reserve.last] == [each.record.request_id for each in await stage.booked()]


async def test_use_beyond_the_limit_is_reported(stage: QuotaStage) -> None:
    """This includes reservations. The call takes nothing."""
    reserve = Numbers(stage)
    await reserve(usd(0.25))
    await settle(stage, reserve.last, usd(1.5))

    assert [1.5] == await stage.store.spent("blue", [usd(0.0)])
    assert [1.5] == await stage.store.spent("blue", [usd(5.0)])
    assert [0.0] == await stage.store.spent("red", [usd(0.0)])
    assert [] == await stage.store.spent("blue", [])


async def test_the_next_gateway_knows_a_refund(stage: QuotaStage) -> None:
    reserve = Numbers(stage)
    await reserve(usd(0.75))
    await settle(stage, reserve.last, usd(0.75))
    await stage.store.refund("blue", [usd(0.5)])
    await stage.end()

    assert [0.25] == pytest.approx(await stage.store.spent("blue", [usd(0.0)]))


async def test_a_lost_request_is_charged_its_likely_use(stage: QuotaStage) -> None:
    """A budget reserves the most that a request can use, and few lost requests have used that."""
    reserve = Numbers(stage)
    most = Charge(BUDGET, 0.75, "2026-11-18", DAY_S, 0.25)
    assert isinstance(await reserve(most), Granted)
    assert isinstance(await reserve(most), Refused)
    await stage.advance(LEASE_S + 60.0)

    granted = await reserve(most)

    assert isinstance(granted, Granted)
    assert 0.0 == pytest.approx(granted.levels[0].remaining, abs=1e-6)


async def test_reservations_of_a_dead_gateway_stay_charged(stage: QuotaStage) -> None:
    reserve = Numbers(stage)
    slow = Limit(TOKENS.id, "rate", 0.01, burst=0.01)
    await reserve(Charge(slow, 0.01), Charge(SLOTS, 1.0), usd(0.75, left_s=DAY_S))
    await reserve(Charge(SLOTS, 1.0))
    dead = f"{reserve.last[:-1]}1"
    await stage.die()

    other = Numbers(stage, "red")
    assert isinstance(await other(Charge(SLOTS, 1.0)), Granted)
    await settle(stage, dead, Charge(slow, 0.0), Charge(SLOTS, 0.0), usd(0.0, left_s=DAY_S))
    store = stage.store
    assert isinstance(await store.reserve("blue", "a", [Charge(slow, 0.01)], partial(entry, "a")), Refused)
    assert isinstance(await store.reserve("blue", "b", [usd(0.5, left_s=DAY_S)], partial(entry, "b")), Refused)
    for number in range(2):
        assert isinstance(await store.reserve("blue", f"c{number}", [Charge(SLOTS, 1.0)], partial(entry, "c")), Granted)
    assert isinstance(await store.reserve("blue", "d", [Charge(SLOTS, 1.0)], partial(entry, "d")), Refused)
    lost = {each.record.request_id for each in await stage.booked()}
    assert ({"lost-blue-1", "lost-blue-2"} if stage.books_lost else set()) == lost


SCOPES = (
    TOKENS,
    Limit("team:blue/tokens_per_minute", "rate", 3000.0, burst=300.0),
    REQUESTS,
    SLOTS,
    Limit("key:ci/concurrent", "concurrent", 4.0),
    BUDGET,
    Limit("user:blake2b:07/tokens_per_minute", "rate", 900.0, burst=90.0),
    Limit("session:blake2b:08/concurrent", "concurrent", 3.0),
)


def charges_of(rng: random.Random, now: float) -> list[Charge]:
    """Return charges of some of the limits, in their order."""
    charges = []
    for limit in SCOPES:
        if rng.random() < 0.3:
            continue
        if limit.kind == "period":
            day, past_s = divmod(now, DAY_S)
            charges.append(Charge(limit, rng.randrange(40) / 100, f"day {day:.0f}", DAY_S - past_s))
        elif limit.kind == "concurrent":
            charges.append(Charge(limit, 1.0))
        else:
            charges.append(Charge(limit, float(rng.randrange(int(limit.burst * 1.4) + 1))))
    return charges


@pytest.mark.parametrize("seed", range(12))
async def test_any_sequence_is_decided_as_the_meters_decide_it(stage: QuotaStage, seed: int) -> None:
    """Random reservations, settlements and times have the same results as in `Meters`."""
    rng = random.Random(seed)
    meters, now = Meters(), NOW
    live: list[tuple[str, list[Charge]]] = []
    for step in range(120):
        action = rng.random()
        if action < 0.5:
            charges = charges_of(rng, now)
            expected = meters.reserve("blue", f"r{step}", charges, now)
            answer = await stage.store.reserve("blue", f"r{step}", charges, partial(entry, f"lost-{step}"))
            assert type(expected) is type(answer)
            _assert_same(expected, answer)
            if isinstance(answer, Granted):
                live.append((f"r{step}", charges))
            continue
        # No lease ends in between: long times pass only when everything is settled.
        seconds = 0.0 if action < 0.8 else rng.choice([0.01, 0.3, 2.0, 30.0, 7200.0]) * (1 + rng.random())
        ending = len(live) if seconds > 10.0 else min(1, len(live)) if seconds == 0.0 else 0
        for _ in range(ending):
            reservation, charges = live.pop(rng.randrange(len(live)))
            used = [Charge(c.limit, rng.choice([0.0, c.units, 1.5 * c.units]), c.period) for c in charges]
            meters.settle(reservation, used)
            stage.store.settle("blue", reservation, used, partial(entry, reservation))
        await stage.carried_out()
        now += seconds
        await stage.advance(seconds)


def _assert_same(expected: Granted | Refused, answer: Granted | Refused) -> None:
    if isinstance(expected, Refused):
        assert isinstance(answer, Refused)
        assert expected.binding == answer.binding
        assert expected.wait_s == pytest.approx(answer.wait_s, abs=0.001)
    for ours, theirs in zip(expected.levels, answer.levels, strict=True):
        assert ours.remaining == pytest.approx(theirs.remaining, abs=0.01)
        assert ours.reset_s == pytest.approx(theirs.reset_s, abs=0.001)
