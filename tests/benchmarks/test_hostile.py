from collections import Counter

import pytest

from benchmarks.hostile import Case, Delays, beside, parse_arguments, tell
from benchmarks.report import Circumstances, Report
from benchmarks.stub_worker import Pace, serve, write_script
from benchmarks.watched_gateway import Turns


def test_the_bars_are_those_of_the_worst() -> None:
    """The longest hold, the most memory, the streams beside attackers against those alone."""
    cases = [
        Case("a", 200, 1.0, Turns(longest_cpu_ms=4.0, longest_ms=4.5), 10_000),
        Case("b", 400, 2.0, Turns(longest_cpu_ms=1.0, longest_ms=6.0), 90_000),
    ]
    report = Report("hostile", "Hostile", Circumstances.observe(seed=1, packages=()))
    alone, attacked = Delays(50.0, 60.0, 70.0, 100), Delays(50.0, 75.0, 90.0, 100)
    tell(report, cases, alone, attacked, Counter({200: 2, 400: 5}), kept_bytes=3_000_000, size=10_000)

    assert [4.0, 6.0, 9.0, 15.0, 3.0] == [bar.value for bar in report.bars]
    assert [True, False, False, True, True] == [bar.is_met for bar in report.bars]
    assert "2 x 200, 5 x 400" in report.markdown()


@pytest.mark.e2e
async def test_the_time_between_events_is_that_of_the_worker() -> None:
    """It waits before each event."""
    async with await serve(write_script("calm"), pace=Pace(event_s=0.01)) as server:
        delays = await beside(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    assert delays.events > 50
    assert delays.longest >= delays.p99 >= delays.p50 > 1.0


def test_the_limit_is_the_default_of_the_gateway() -> None:
    assert 8 * 2**20 == parse_arguments([]).size
