from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.recorder import LONGEST_NAME, Recorder, to_nano
from tests.gateway.tenancy.ledger.examples import a_record

AT = 1_795_247_999.9994
"""2026-11-21 07:59:59.999 in UTC."""


@dataclass
class Clock:
    now: float

    def __call__(self) -> float:
        return self.now


def recorded(recorder: Recorder, **changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "request_id": "req-1",
        "team": "blue",
        "project": None,
        "key": "ci",
        "user": None,
        "model_asked": "small",
        "model": "tiny",
        "backend": "w1",
        "outcome": "ok",
        "status": 200,
        "prompt_tokens": 100,
        "cached_tokens": 60,
        "completion_tokens": 20,
        "cost_nano": 1_000_000,
        "saved_nano": 400_000,
        "fell_back": False,
        "ttft_s": 0.0315,
        "duration_s": 0.25,
    }
    return recorder.entry(at=recorder.now(), **fields | changes)


def utc(clock: Clock) -> Recorder:
    return Recorder(wall_clock=clock, zone=ZoneInfo("UTC"))


def test_an_entry_has_what_it_was_given() -> None:
    assert Entry.from_record("2026-11-21", a_record(time="2026-11-21T07:59:59.999Z")) == recorded(utc(Clock(AT)))


def test_money_is_kept_to_the_nano_dollar_and_time_to_a_tenth_of_a_millisecond() -> None:
    money = {"cost_nano": to_nano(1 / 3), "saved_nano": to_nano(2 / 3)}
    record = recorded(utc(Clock(AT)), **money, ttft_s=1 / 3, duration_s=2 / 3).record

    assert (0.333333333, 0.666666667) == (record.cost_usd, record.saved_usd)
    assert (333.3, 666.7) == (record.ttft_ms, record.duration_ms)


def test_a_request_without_an_answer_has_no_first_token() -> None:
    assert recorded(utc(Clock(AT)), ttft_s=None).record.ttft_ms is None


def test_time_goes_on() -> None:
    """Within a second and beyond it."""
    clock = Clock(AT - 0.5)
    recorder = utc(clock)
    times = []
    for _ in range(3):
        times.append(recorded(recorder).record.time)
        clock.now += 0.4

    assert ["2026-11-21T07:59:59.499Z", "2026-11-21T07:59:59.899Z", "2026-11-21T08:00:00.299Z"] == times


@pytest.mark.parametrize(
    ("zone", "time", "day"),
    [
        ("UTC", "2026-10-31T23:30:00.000Z", "2026-10-31"),
        ("Europe/Berlin", "2026-10-31T23:30:00.000Z", "2026-11-01"),
        ("America/Los_Angeles", "2026-11-01T06:59:59.000Z", "2026-10-31"),
        ("America/Los_Angeles", "2026-11-01T07:00:00.000Z", "2026-11-01"),
        ("America/Los_Angeles", "2026-11-02T07:30:00.000Z", "2026-11-01"),
        ("America/Los_Angeles", "2026-11-02T08:00:00.000Z", "2026-11-02"),
    ],
)
def test_days_are_those_of_the_time_zone(zone: str, time: str, day: str) -> None:
    """The times of records are of UTC. On the first of November clocks were put back in Los Angeles."""
    recorder = Recorder(wall_clock=Clock(datetime.fromisoformat(time).timestamp()), zone=ZoneInfo(zone))

    entry = recorded(recorder)

    assert (day, time) == (entry.day, entry.record.time)
    assert day == recorder.today()


def test_names_that_callers_choose_are_short_and_printable() -> None:
    record = recorded(utc(Clock(AT)), user="ann\n\x00\ud800é", model_asked="m" * 500).record

    assert "ann???é" == record.user
    assert "m" * LONGEST_NAME == record.model_asked


def test_an_empty_user_is_not_recorded() -> None:
    assert recorded(utc(Clock(AT)), user="").record.user is None
