"""Distance of checkpoints, and their rows in the file."""

import sqlite3

import pytest

from gateway.tenancy.quota import checkpoints
from gateway.tenancy.quota.limit import Limit
from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.meters import MeterState
from tests.gateway.tenancy.quota.examples import BUDGET, DAY_S, NOW, TOKENS


def meter(limit: Limit, value: float) -> Meter:
    made = Meter("blue", limit, checkpoints.NEVER)
    made.value = value
    return made


@pytest.mark.parametrize(
    ("limit", "ahead"),
    [
        (Limit("a", "rate", 600.0, burst=600.0), 3.0),
        (Limit("a", "rate", 600.0, burst=60.0), 0.5),
        (Limit("a", "period", 1_000_000.0), 1000.0),
    ],
    ids=["a twentieth of the bucket", "half a second at least", "a thousandth of the period"],
)
def test_checkpoints_are_a_step_ahead(limit: Limit, ahead: float) -> None:
    assert ahead == pytest.approx(checkpoints.ahead(meter(limit, 0.0)))


def test_the_checkpoint_of_a_bucket_is_ahead_of_time_too() -> None:
    """A full bucket is no further behind than now: that says the same."""
    assert NOW + 0.5 == checkpoints.next_checkpoint(meter(TOKENS, NOW - 1000.0), NOW)
    assert NOW + 7.5 == checkpoints.next_checkpoint(meter(TOKENS, NOW + 7.0), NOW)
    assert 0.251 == pytest.approx(checkpoints.next_checkpoint(meter(BUDGET, 0.25), NOW))


def test_the_next_checkpoint_is_due_when_half_of_the_way_is_used_up() -> None:
    made = meter(BUDGET, 0.25)
    checkpoints.put(made, 0.251)

    assert 0.251 == made.checkpoint
    assert 0.2505 == pytest.approx(made.alert)


def test_the_file_keeps_what_still_says_something() -> None:
    connection = sqlite3.connect(":memory:")
    checkpoints.create(connection)
    checkpoints.create(connection)
    bucket, day = meter(TOKENS, NOW), meter(BUDGET, 0.2)
    day.period, day.ends = "2026-11-18", NOW + DAY_S
    states = [checkpoints.state_of(bucket, NOW + 5.0), checkpoints.state_of(day, 0.25)]
    checkpoints.write(connection, [MeterState("blue", TOKENS.id, 1.0, "", 1.0)])
    checkpoints.write(connection, states)

    assert [
        MeterState("blue", TOKENS.id, NOW + 5.0, "", NOW + 5.0),
        MeterState("blue", BUDGET.id, 0.25, "2026-11-18", NOW + DAY_S),
    ] == states
    assert states == checkpoints.read(connection, NOW)
    assert states[1:] == checkpoints.read(connection, NOW + 5.0)
    checkpoints.remove_ended(connection, NOW + 5.0)
    assert states[1:] == checkpoints.read(connection, NOW)
    checkpoints.replace(connection, states[:1])
    assert states[:1] == checkpoints.read(connection, NOW)
    connection.close()
