"""How far ahead marks are, and that the file keeps them."""

import sqlite3

import pytest

from gateway.quota import marks
from gateway.quota.limit import Limit
from gateway.quota.meter import Meter
from gateway.quota.meters import MeterState
from tests.gateway.quota.examples import BUDGET, DAY_S, NOW, TOKENS


def meter(limit: Limit, value: float) -> Meter:
    made = Meter("blue", limit, marks.NEVER)
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
def test_marks_are_a_step_ahead(limit: Limit, ahead: float) -> None:
    assert ahead == pytest.approx(marks.ahead(meter(limit, 0.0)))


def test_the_mark_of_a_bucket_is_ahead_of_time_too() -> None:
    """A full bucket is no further behind than now: that says the same."""
    assert NOW + 0.5 == marks.mark_of(meter(TOKENS, NOW - 1000.0), NOW)
    assert NOW + 7.5 == marks.mark_of(meter(TOKENS, NOW + 7.0), NOW)
    assert 0.251 == pytest.approx(marks.mark_of(meter(BUDGET, 0.25), NOW))


def test_the_next_mark_is_due_when_half_of_the_way_is_used_up() -> None:
    made = meter(BUDGET, 0.25)
    marks.put(made, 0.251)

    assert 0.251 == made.mark
    assert 0.2505 == pytest.approx(made.alert)


def test_the_file_keeps_what_still_says_something() -> None:
    connection = sqlite3.connect(":memory:")
    marks.create(connection)
    marks.create(connection)
    bucket, day = meter(TOKENS, NOW), meter(BUDGET, 0.2)
    day.period, day.ends = "2026-11-18", NOW + DAY_S
    states = [marks.state_of(bucket, NOW + 5.0), marks.state_of(day, 0.25)]
    marks.write(connection, [MeterState("blue", TOKENS.id, 1.0, "", 1.0)])
    marks.write(connection, states)

    assert [
        MeterState("blue", TOKENS.id, NOW + 5.0, "", NOW + 5.0),
        MeterState("blue", BUDGET.id, 0.25, "2026-11-18", NOW + DAY_S),
    ] == states
    assert states == marks.read(connection, NOW)
    assert states[1:] == marks.read(connection, NOW + 5.0)
    marks.remove_ended(connection, NOW + 5.0)
    assert states[1:] == marks.read(connection, NOW)
    marks.replace(connection, states[:1])
    assert states[:1] == marks.read(connection, NOW)
    connection.close()
