import pytest

from benchmarks.peers.entrants import ENTRANTS, LITELLM, NGINX, OURS, SGLANG
from benchmarks.peers.scenarios.closed_loop import STUB
from benchmarks.peers.scenarios.rates import JUDGED, RATES, SLOW, Rate, added, last_p99, requests, takes_part, tell
from tests.benchmarks.peers.scenarios.made_up import a_report, reading

SMG = "smg cache_aware"


def test_added_is_what_the_worker_itself_did_not_take_in_the_same_round() -> None:
    found = [
        reading(STUB, 1.0),
        reading(OURS, 4.0),
        reading(STUB, 9.0, round_number=1),
        reading(OURS, 12.0, round_number=1),
        reading(OURS, 99.0, round_number=2),
    ]

    assert "3 (3 – 3)" == str(added(found, OURS, last_p99))
    assert added(found, SGLANG, last_p99) is None


@pytest.mark.parametrize(("p99_ms", "is_met"), [(5.0, True), (5.1, False)])
def test_the_bars_are_the_best_routers_p50_and_p99(p99_ms: float, is_met: bool) -> None:
    """Nginx is no router, and rates of streams and of slow routers are reported only."""
    report = a_report()
    judged = {STUB: 1.0, NGINX: 1.5, SGLANG: 9.0, SMG: 5.0, OURS: p99_ms}
    found = {rate: [reading(OURS, 900.0)] for rate in RATES}
    found |= {rate: [reading(name, value) for name, value in judged.items()] for rate in JUDGED}
    tell(report, found)

    assert is_met == report.is_met
    names = [f"{name} added at {per_s} requests per second" for per_s in (100, 500, 1000) for name in ("p50", "p99")]
    assert names == [bar.what.partition(",")[0] for bar in report.bars[:-1]]
    assert all(bar.what.endswith(SMG) for bar in report.bars[:-1])
    assert len(RATES) == len(report.tables)


def test_slow_ones_are_asked_at_the_lowest_rate_only() -> None:
    """Where the limit and ours stand beside them."""
    assert [SLOW] == [rate for rate in RATES if takes_part(ENTRANTS[LITELLM], rate)]
    assert SLOW not in [rate for rate in RATES if takes_part(ENTRANTS[SGLANG], rate)]
    assert list(RATES) == [rate for rate in RATES if takes_part(ENTRANTS[OURS], rate)]
    assert list(RATES) == [rate for rate in RATES if takes_part(None, rate)]


def test_streams_are_asked_for_where_the_rate_is_of_streams() -> None:
    assert b'"stream": true' in requests(Rate(50, streams=True), 1)(0)
    assert b'"stream"' not in requests(Rate(50), 1)(0)


def test_rates_with_bars_are_measured_more_often() -> None:
    """A dozen requests make a p99 otherwise. Three rounds are twelve turns."""
    assert [4, 4, 4] == [rate.turns for rate in RATES if rate in JUDGED]
    assert {1} == {rate.turns for rate in RATES if rate not in JUDGED}
