"""Slots of the table of limits that processes share: found by all, reused, and given back after a kill."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.quota import checkpoints
from gateway.tenancy.quota.limit import Limit
from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.meter_table import PAST_S, STEP, MeterTable, new_table
from tests.gateway.tenancy.quota.examples import BUDGET, DAY_S, NOW, SLOTS, TOKENS

SEATS = 3


@pytest.fixture
def first() -> Iterator[MeterTable]:
    table = new_table(SEATS, capacity=2 * STEP)
    yield table
    os.close(table.descriptor)


@pytest.fixture
def second(first: MeterTable) -> MeterTable:
    return MeterTable(first.descriptor, 1)


def meter(limit: Limit = TOKENS, *, team: str = "blue", period: str = "", ends: float = 0.0) -> Meter:
    made = Meter(team, limit, checkpoints.NEVER)
    made.period, made.ends = period, ends
    return made


def today() -> Meter:
    return meter(BUDGET, period="2026-11-18", ends=NOW + DAY_S)


def placed(table: MeterTable, made: Meter) -> Meter:
    table.place(made)
    return made


def counted(table: MeterTable, made: Meter, value: float, unlikely: float = 0.0) -> Meter:
    table.place(made)
    requests = value - made.value if made.is_concurrent else 0.0
    made.value, made.unlikely = value, unlikely
    table.store(made, requests)
    return made


def test_all_processes_see_what_one_has_counted(first: MeterTable, second: MeterTable) -> None:
    counted(first, meter(), NOW + 3.0)

    assert NOW + 3.0 == placed(second, meter()).value


@pytest.mark.parametrize(
    "other",
    [meter(team="red"), meter(Limit("key:ci/other", "rate", 600.0)), meter(period="2026-11-18")],
    ids=["team", "limit", "period"],
)
def test_limits_of_other_places_are_counted_apart(other: Meter, first: MeterTable, second: MeterTable) -> None:
    counted(first, meter(), NOW + 3.0)

    assert 0.0 == placed(second, other).value


def test_many_limits_are_found_again(first: MeterTable, second: MeterTable) -> None:
    for number in range(2 * STEP):
        counted(first, meter(team=f"team{number}"), float(number))

    found = [placed(second, meter(team=f"team{number}")).value for number in range(2 * STEP)]
    assert list(map(float, range(2 * STEP))) == found


def test_a_full_table_refuses_further_limits(first: MeterTable) -> None:
    """Those in the table are still counted."""
    for number in range(2 * STEP):
        placed(first, meter(team=f"team{number}"))

    with pytest.raises(StoreUnavailable, match="The table of limits is full"):
        first.place(meter(team="one more"))
    assert 5.0 == counted(first, meter(team="team7"), 5.0).value


def test_slots_of_unused_limits_are_used_again(first: MeterTable, second: MeterTable) -> None:
    """A bucket that is full, an hour after a period, and no active request."""
    for number in range(2 * STEP - 2):
        counted(first, meter(team=f"team{number}"), NOW)
    counted(first, meter(BUDGET, period="2026-11-17", ends=NOW - PAST_S), 0.5)
    counted(first, meter(SLOTS), 0.0)

    assert second.free_unused(NOW)
    assert not second.free_unused(NOW)
    for number in range(2 * STEP):
        placed(first, meter(team=f"other{number}"))


def test_limits_in_use_keep_their_slots(first: MeterTable, second: MeterTable) -> None:
    """Also the budget of a period that has just ended, for the requests that began before."""
    bucket = counted(first, meter(), NOW + 0.1)
    budget = counted(first, meter(BUDGET, period="2026-11-17", ends=NOW - 1.0), 0.5)
    slots = counted(first, meter(SLOTS), 1.0)
    second.free_unused(NOW)

    for each in (bucket, budget, slots):
        former = each.value
        first.load(each)
        assert former == each.value


def test_a_full_bucket_keeps_its_slot_for_requests_in_flight(first: MeterTable, second: MeterTable) -> None:
    """They may use more than they have reserved."""
    running = counted(first, meter(), NOW)
    first.store(running, 1.0)
    second.free_unused(NOW + 1.0)
    first.load(running)
    assert NOW == running.value

    first.reclaim(0)
    second.free_unused(NOW + 1.0)
    first.load(running)
    assert 0.0 == running.value


def test_a_meter_whose_slot_was_freed_begins_again(first: MeterTable, second: MeterTable) -> None:
    """Its state is not that of another limit, which has got the slot meanwhile."""
    old = counted(first, meter(), NOW)
    second.free_unused(NOW + 1.0)
    counted(second, meter(team="red"), NOW + 50.0)
    first.load(old)
    old.value = NOW + 2.0
    first.store(old)

    assert NOW + 50.0 == placed(second, meter(team="red")).value
    assert NOW + 2.0 == placed(second, meter()).value


def test_a_slot_is_released_only_while_nothing_is_counted(first: MeterTable, second: MeterTable) -> None:
    mine = placed(first, meter())
    counted(second, meter(), NOW + 3.0)
    first.release(mine)
    assert NOW + 3.0 == placed(second, meter()).value

    blank = placed(first, meter(team="red"))
    first.release(blank)
    former = blank.generation
    first.place(blank)
    assert former != blank.generation


def test_requests_of_a_killed_process_are_given_back(first: MeterTable, second: MeterTable) -> None:
    """Those of others keep their places."""
    counted(first, meter(SLOTS), 1.0)
    counted(second, meter(SLOTS), 3.0)
    second.reclaim(1)
    assert 1.0 == placed(first, meter(SLOTS)).value

    first.reclaim(0)
    assert 0.0 == placed(second, meter(SLOTS)).value


def test_a_budget_gets_back_what_was_unlikely(first: MeterTable, second: MeterTable) -> None:
    """What the requests of the killed process have probably used stays charged."""
    counted(first, today(), 0.3, unlikely=0.1)
    counted(second, today(), 0.8, unlikely=0.5)
    first.reclaim(1)

    left = placed(first, today())
    assert (0.4, 0.1) == pytest.approx((left.value, left.unlikely))


def test_a_rate_keeps_the_requests_of_a_killed_process(first: MeterTable, second: MeterTable) -> None:
    counted(second, meter(), NOW + 3.0)
    first.reclaim(1)

    assert NOW + 3.0 == placed(first, meter()).value


def test_a_checkpoint_is_published_without_the_value(first: MeterTable, second: MeterTable) -> None:
    """Another process may have counted more since the value was read."""
    mine = counted(first, meter(), NOW + 1.0)
    counted(second, meter(), NOW + 9.0)
    mine.checkpoint, mine.alert = NOW + 20.0, NOW + 15.0
    first.store_marks(mine)

    seen = placed(second, meter())
    assert (NOW + 9.0, NOW + 20.0, NOW + 15.0) == (seen.value, seen.checkpoint, seen.alert)


def test_a_seat_is_known_until_its_process_has_left_or_was_given_back(first: MeterTable, second: MeterTable) -> None:
    first.sit_down()
    second.sit_down()
    seen = [first.is_alone]
    second.stand_up()
    seen.append(first.is_alone)
    second.sit_down()
    first.reclaim(1)
    seen.append(first.is_alone)

    assert [False, True, True] == seen


COUNTING = """
import sys
from gateway.tenancy.quota.limit import Limit
from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.meter_table import MeterTable
table = MeterTable(int(sys.argv[1]), int(sys.argv[2]))
meter = Meter("blue", Limit("slots", "concurrent", 1.0), 0.0)
table.lock()
table.place(meter)
table.unlock()
for _ in range(5000):
    table.lock()
    table.load(meter)
    meter.value += 1.0
    table.store(meter, 1.0)
    table.unlock()
"""


@pytest.mark.e2e
def test_no_count_of_processes_at_the_same_time_is_lost(first: MeterTable) -> None:
    """Three processes count 5,000 requests each. When two of them are given back, those of the third are left."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", COUNTING, str(first.descriptor), str(seat)], pass_fds=[first.descriptor]
        )
        for seat in range(SEATS)
    ]
    assert [0, 0, 0] == [each.wait() for each in running]

    mine = placed(first, meter(Limit("slots", "concurrent", 1.0)))
    assert 15_000.0 == mine.value
    first.reclaim(0)
    first.reclaim(2)
    first.load(mine)
    assert 5000.0 == mine.value


@pytest.mark.e2e
def test_one_process_at_a_time_writes_checkpoints(first: MeterTable) -> None:
    """A process that waits for its turn does not keep others from counting."""
    code = (
        "import sys; from gateway.tenancy.quota.meter_table import MeterTable; "
        "table = MeterTable(int(sys.argv[1]), 1); table.lock(); table.unlock(); print(table.try_writing())"
    )

    def asked() -> str:
        command = [sys.executable, "-c", code, str(first.descriptor)]
        return subprocess.run(
            command, pass_fds=[first.descriptor], check=True, capture_output=True, text=True
        ).stdout.strip()

    assert first.try_writing()
    assert "False" == asked()
    first.end_writing()
    assert "True" == asked()
