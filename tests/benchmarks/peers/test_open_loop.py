import asyncio
import random
import time

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers.line import Answer, Lines, wire
from benchmarks.peers.open_loop import Alarm, Latency, drive, ends, poisson, to_first, to_last
from benchmarks.stub_worker import Pace, serve, write_script


def test_arrivals_are_as_many_as_the_rate_says_and_in_order() -> None:
    """To within what chance does to ten thousand."""
    times = poisson(1_000, 10, random.Random(1))

    assert 9_700 < len(times) < 10_300
    assert sorted(times) == times
    assert 0 < times[0] < times[-1] < 10


def test_the_same_seed_gives_the_same_times() -> None:
    """Everybody is asked at the same times."""
    assert poisson(100, 1, random.Random(3)) == poisson(100, 1, random.Random(3))


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=300))
def test_a_percentile_is_a_value_that_was_seen(times_s: list[float]) -> None:
    found = Latency.of(times_s)

    for value_ms, share in ((found.p50_ms, 0.5), (found.p99_ms, 0.99), (found.highest_ms, 1.0)):
        assert any(value_ms == pytest.approx(1e3 * each) for each in times_s)
        assert sum(1e3 * each > value_ms * (1 + 1e-9) for each in times_s) <= (1 - share) * len(times_s) + 1e-9


def test_without_an_answer_there_is_no_latency() -> None:
    with pytest.raises(ValueError, match="no answer"):
        Latency.of([])


def test_latencies_count_from_when_a_request_was_due_and_of_whole_answers_only() -> None:
    """However late it was sent."""
    answers = [
        Answer(10.0, sent_s=10.5, first_s=10.6, last_s=10.75, end="whole"),
        Answer(10.0, sent_s=10.0, first_s=19.0, last_s=19.0, end="status 503"),
    ]

    assert pytest.approx(750) == to_last(answers).p50_ms
    assert pytest.approx(600) == to_first(answers).highest_ms
    assert {"whole": 1, "status 503": 1} == ends(answers)


@pytest.mark.e2e
async def test_all_requests_are_sent_in_their_order_and_none_waits_for_an_answer() -> None:
    """A worker that takes a fifth of a second gets all ten within it."""
    server = await serve(write_script("tiny"), pace=Pace(first_byte_s=0.2))
    lines = Lines(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    asked: list[int] = []

    def request(number: int) -> bytes:
        asked.append(number)
        return wire(b"{}")

    answers = await drive(lines, request, [number / 1_000 for number in range(10)])
    lines.close()
    server.close()
    first_end = min(answer.last_s or 0.0 for answer in answers)

    assert list(range(10)) == asked
    assert ["whole"] * 10 == [answer.end for answer in answers]
    assert all(answer.due_s <= (answer.sent_s or 0.0) for answer in answers)
    assert all((answer.due_s < first_end) for answer in answers)


@pytest.mark.e2e
def test_the_alarm_rings_at_its_time_and_not_before() -> None:
    """Under uvloop as well; a time that is over is no reason to wait."""

    async def waits() -> list[float]:
        alarm = Alarm()
        began = time.monotonic()
        early = []
        for until in (began + 0.002, began + 0.0035, began - 1.0):
            await alarm.wait(until)
            early.append(until - time.monotonic())
        alarm.close()
        return early

    for early in (asyncio.run(waits()), uvloop.run(waits())):
        assert all(seconds <= 0 for seconds in early)
