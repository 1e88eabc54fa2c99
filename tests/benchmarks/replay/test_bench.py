from pathlib import Path

import pytest

from benchmarks.chart import LineChart
from benchmarks.replay.bench import FIRST_WAITS, Bench, lead_bar, mean_ttft_s, speed_ratio_bar
from benchmarks.report import Report
from replay.setting import Setting
from replay.summary import Summary
from tests.benchmarks.test_report import circumstances
from tests.replay.examples import asked, session, three, written

SETTING = Setting("Chat", Path("trace.jsonl"), 1, 100)


def a_report() -> Report:
    return Report("replay", "Strategies", circumstances())


def of_mean(ttft_s: float) -> Summary:
    return Summary(100, 0.5, ttft_s, 1.0, 2.0, 3.0, 1.0, 0.0)


def test_each_strategy_is_a_row(tmp_path: Path) -> None:
    """With every run of it among the figures."""
    report = a_report()
    strategies = ("kv_aware", "round_robin", "bound_first_come")
    found = Bench((1, 2)).compare(Setting("Chat", three(tmp_path), 4, 100), strategies, report)
    (table,) = report.tables

    assert list(strategies) == [row[0] for row in table.rows] == list(found)
    assert "Chat (1 times the recorded speed, 4 workers of 100 blocks of 512 tokens, boundless cache: 46.5%)" == (
        table.title
    )
    assert [2, 2, 2] == [len(runs) for runs in found.values()]
    assert found == report.figures["Chat"]
    assert len(table.columns) == len(table.rows[0]) == 8


def test_a_table_may_show_more(tmp_path: Path) -> None:
    report = a_report()
    users = written(tmp_path, session(1), session(2))
    Bench((1,)).compare(Setting("Users", users, 1, 100, users=2), ("round_robin",), report, more=FIRST_WAITS)
    (table,) = report.tables

    assert ("wait of a first request, mean s", "longest s") == tuple(table.columns)[-2:]
    assert ["0 (0 – 0)", "0 (0 – 0)"] == [str(cell) for cell in table.rows[0][-2:]]


def test_a_table_says_how_it_was_asked(tmp_path: Path) -> None:
    report, bench = a_report(), Bench((1,))
    (tmp_path / "users").mkdir()
    users = written(tmp_path / "users", session(1), session(2))
    bench.compare(Setting("Users", users, 1, 100, users=2), ("round_robin",), report)
    bench.compare(Setting("Random", three(tmp_path), 1, 100, poisson_per_s=3.0), ("round_robin",), report)

    assert ["Users (2 users, 1 workers", "Random (Poisson, 3 requests per second, 1 workers"] == [
        table.title.split(" of ")[0] for table in report.tables
    ]


def test_the_search_compares_speeds_that_can_be_borne(tmp_path: Path) -> None:
    """Twenty prompts of 10 s that are all the same: who computes them again bears no more."""
    path = written(tmp_path, *(asked(10_000 * number, 20_000, range(39)) for number in range(20)))
    report = a_report()
    speeds = Bench((1,)).search_speeds(Setting("Chat", path, 4, 100), ("kv_aware", "round_robin"), report)
    (table,) = report.tables

    assert ["kv_aware", "round_robin"] == [row[0] for row in table.rows]
    assert table.title.startswith("Chat: highest speed at which TTFT p90 is at most 4 s (4 workers of 100 blocks")
    assert speeds["kv_aware"] >= speeds["round_robin"] > 1.0


def test_a_chart_has_a_point_for_each_setting(tmp_path: Path) -> None:
    report, path = a_report(), three(tmp_path)
    settings = {speed: Setting("", path, 1, 100, speed=speed) for speed in (1.0, 2.0, 4.0)}
    Bench((1, 2)).draw("Speed", "times", settings, ("kv_aware", "round_robin"), report)
    (chart,) = report.charts
    assert isinstance(chart, LineChart)

    assert ("Speed", "times") == (chart.title, chart.across)
    assert {"kv_aware": [1.0, 2.0, 4.0], "round_robin": [1.0, 2.0, 4.0]} == {
        name: [x for x, _ in line] for name, line in chart.series.items()
    }
    assert all(y > 0.01 for line in chart.series.values() for _, y in line)


def test_the_median_run_counts() -> None:
    """One unlucky seed of three changes nothing."""
    assert 2.0 == mean_ttft_s([of_mean(2.0), of_mean(1.0), of_mean(50.0)])


@pytest.mark.parametrize(("ours_s", "is_met"), [(2.05, True), (2.2, False)])
def test_ours_has_to_be_as_fast_as_the_best_of_others(ours_s: float, *, is_met: bool) -> None:
    found = {"kv_aware": [of_mean(ours_s)], "a": [of_mean(2.0)], "b": [of_mean(3.0)], "bound": [of_mean(0.1)]}
    bar = lead_bar(SETTING, "kv_aware", found, ("a", "b"))

    assert ("Chat: kv_aware's mean TTFT, share of the best of a, b", is_met) == (bar.what, bar.is_met)
    assert pytest.approx(ours_s / 2.0) == bar.value


@pytest.mark.parametrize(("speed", "is_met"), [(1.6, True), (1.5, False)])
def test_prefix_aware_has_to_bear_twice_the_speed_of_round_robin(speed: float, *, is_met: bool) -> None:
    """Nothing else counts."""
    bar = speed_ratio_bar(SETTING, {"prefix_aware": speed, "round_robin": 0.8, "kv_aware": 9.0})

    assert is_met == bar.is_met
