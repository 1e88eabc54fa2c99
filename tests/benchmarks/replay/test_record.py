from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest

from benchmarks.replay.bench import Bench
from benchmarks.replay.entrant import AT_ONCE, BLIND, ENTRANTS
from benchmarks.replay.record import CHARTED, EVERYBODY, SEARCHED, record
from benchmarks.replay.recorded import SETTINGS
from benchmarks.report import Report
from replay.setting import Setting
from replay.summary import Summary
from tests.benchmarks.test_report import circumstances

GOOD = Summary(100, 0.5, 1.0, 0.5, 2.0, 3.0, 1.0, 10.0, 5.0, 100.0)


class Found(Bench):
    """Replays nothing: everybody has the summary and the speed of *ours* or of *others*."""

    ours = GOOD
    others = replace(GOOD, ttft_mean_s=2.0, ttft_p50_s=1.0)
    speeds: Mapping[str, float] = MappingProxyType({"kv_aware": 2.5, "prefix_aware": 2.4})
    hard_times = 1.0

    def compare(
        self,
        setting: Setting,
        strategies: Sequence[str],
        report: Report,
        *,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Mapping[str, Sequence[Summary]]:
        assert set(strategies) <= set(ENTRANTS)
        times = self.hard_times if setting.event_lag_s else 1.0
        report.figures[setting.title] = [*strategies, *more]
        ours = replace(self.ours, ttft_mean_s=self.ours.ttft_mean_s * times)
        return {name: [ours if name in {"kv_aware", "prefix_aware"} else self.others] for name in strategies}

    def search_speeds(self, setting: Setting, strategies: Sequence[str], report: Report) -> Mapping[str, float]:
        times = self.hard_times if setting.event_lag_s else 1.0
        report.figures[f"speed of {setting.title}"] = list(strategies)
        return {name: self.speeds.get(name, 0.8) / times for name in strategies}

    def draw(
        self, title: str, across: str, settings: Mapping[float, Setting], strategies: Sequence[str], report: Report
    ) -> None:
        assert len(settings) > 5
        report.figures[title] = list(strategies)


def recorded(found: type[Found]) -> Report:
    report = Report("replay", "Strategies", circumstances())
    record(found((1,)), report)
    return report


def missed(found: type[Found]) -> list[str]:
    return [bar.what.split(":")[0] for bar in recorded(found).bars if not bar.is_met]


def test_everybody_is_compared_in_every_setting() -> None:
    """All that there is, with the bounds, except the strategy that ignores host tiers; a chart has fewer lines."""
    figures = recorded(Found).figures

    assert {*EVERYBODY, BLIND, AT_ONCE} == set(ENTRANTS)
    assert all(list(EVERYBODY) == figures[setting.title] for setting in SETTINGS)
    assert 3 == sum(figure == list(SEARCHED) for figure in figures.values())
    assert 2 == sum(figure == list(CHARTED) for figure in figures.values())


def test_anyone_who_is_good_meets_all_bars() -> None:
    """Those of every setting, of speeds, of hardship and of overload."""
    report = recorded(Found)

    assert report.is_met
    assert 4 + 2 + 1 + 3 * 4 + 4 + 3 == len(report.bars)


def test_slow_agents_are_a_missed_bar() -> None:
    """A mean of five seconds: too slow by itself, and beside the others."""

    class Slow(Found):
        ours = replace(GOOD, ttft_mean_s=5.0)

    assert "Coding agents" in missed(Slow)
    assert "RAG" in missed(Slow)


def test_a_low_speed_is_a_missed_bar() -> None:
    class Low(Found):
        speeds = MappingProxyType({"kv_aware": 2.2, "prefix_aware": 2.4})

    assert ["Chat, 2,900 blocks", "Chat, 5,712 blocks"] == missed(Low)


def test_hardship_may_not_cost_much() -> None:
    """A fifth is too much, of TTFT in four settings and of speed in three."""

    class Frail(Found):
        hard_times = 1.2

    assert 7 == len(missed(Frail))
    assert all("rate believed twice too high" in bar.what for bar in recorded(Frail).bars if not bar.is_met)


@pytest.mark.parametrize(
    ("summary", "count"),
    [
        (replace(GOOD, ttft_p50_s=0.8), 1),
        (replace(GOOD, first_wait_max_s=200.0), 1),
        (replace(GOOD, ttft_p50_s=0.8, first_wait_max_s=200.0), 2),
    ],
)
def test_overload_has_bars_of_its_own(summary: Summary, count: int) -> None:
    """Half of the requests must be faster than with policy B, and no one's first may wait without end."""

    class Overloaded(Found):
        ours = summary

    assert ["Coding agents, more than the caches hold"] * count == missed(Overloaded)
