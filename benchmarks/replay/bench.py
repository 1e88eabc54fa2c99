"""Comparisons of many replays, into a report."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from benchmarks.chart import LineChart
from benchmarks.replay.job import SPEED_STEP, TTFT_P90_LIMIT_S, Figure, Job, figures_of, speed_of, summary_of, trace_of
from benchmarks.report import Bar, Cell, Report, Spread, Table
from replay.setting import Setting
from replay.summary import Summary
from replay.trace import boundless_hit_rate

TTFT_BAR = 1.05  # RAG leaves nothing to win over round_robin at this load; there it must not lose.
SPEED_BAR = 2.0
COLUMNS = {
    "hit": "hit rate",
    "ttft_mean_s": "TTFT mean s",
    "ttft_p50_s": "p50 s",
    "ttft_p90_s": "p90 s",
    "ttft_p99_s": "p99 s",
    "imbalance": "imbalance",
}
FIRST_WAITS = {"first_wait_mean_s": "wait of a first request, mean s", "first_wait_max_s": "longest s"}


@dataclass(frozen=True, slots=True)
class Bench:
    """Number of repetitions, and of processes at a time."""

    seeds: Sequence[int]
    processes: int = 1

    def compare(
        self,
        setting: Setting,
        strategies: Sequence[str],
        report: Report,
        *,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Mapping[str, Sequence[Summary]]:
        """Every strategy in one setting, into *report*; *more* are further fields of `Summary`, and their columns."""
        found = self._each(summary_of, setting, strategies)
        report.tables.append(_comparison(setting, found, {**COLUMNS, **more}))
        report.figures[setting.title] = found
        return found

    def search_speeds(self, setting: Setting, strategies: Sequence[str], report: Report) -> Mapping[str, float]:
        """Find how much faster than recorded each strategy can be driven, into *report*; return the medians."""
        title = f"{setting.title}: highest speed at which TTFT p90 is at most {TTFT_P90_LIMIT_S:g} s"
        found = self._each(speed_of, setting, strategies)
        rows = [(strategy, Spread.of(speeds)) for strategy, speeds in found.items()]
        report.tables.append(Table(f"{title} ({_engines(setting)})", ("strategy", "times the recorded speed"), rows))
        report.figures[title] = found
        return {strategy: statistics.median(speeds) for strategy, speeds in found.items()}

    def draw(
        self,
        title: str,
        across: str,
        settings: Mapping[float, Setting],
        strategies: Sequence[str],
        report: Report,
    ) -> None:
        """Mean TTFT over what *settings* are named by, with the first seed alone, as a chart of *report*."""
        jobs = [Job(setting, strategy, self.seeds[0]) for strategy in strategies for setting in settings.values()]
        means = iter(summary.ttft_mean_s for summary in figures_of(summary_of, jobs, processes=self.processes))
        series = {strategy: [(x, next(means)) for x in settings] for strategy in strategies}
        report.charts.append(LineChart(title, across, "mean TTFT, s", series))
        report.figures[title] = series

    def _each(
        self, figure: Callable[[Job], Figure], setting: Setting, strategies: Sequence[str]
    ) -> dict[str, list[Figure]]:
        """The figure of each strategy with each seed."""
        jobs = [Job(setting, strategy, seed) for strategy in strategies for seed in self.seeds]
        found = iter(figures_of(figure, jobs, processes=self.processes))
        return {strategy: [next(found) for _ in self.seeds] for strategy in strategies}


def mean_ttft_s(runs: Sequence[Summary]) -> float:
    """The median of the runs' means."""
    return statistics.median(run.ttft_mean_s for run in runs)


def lead_bar(setting: Setting, ours: str, found: Mapping[str, Sequence[Summary]], others: Sequence[str]) -> Bar:
    """Return the bar that *ours* is not slower than the best of *others*, but for chance."""
    best = min(mean_ttft_s(found[name]) for name in others)
    what = f"{setting.title}: {ours}'s mean TTFT, share of the best of {', '.join(others)}"
    return Bar(what, mean_ttft_s(found[ours]) / best, "<=", TTFT_BAR)


def speed_ratio_bar(setting: Setting, speeds: Mapping[str, float]) -> Bar:
    ratio = speeds["prefix_aware"] / max(SPEED_STEP, speeds["round_robin"])
    return Bar(f"{setting.title}: prefix_aware's highest speed, times round_robin's", ratio, ">=", SPEED_BAR)


def _comparison(setting: Setting, found: Mapping[str, Sequence[Summary]], columns: Mapping[str, str]) -> Table:
    rows: list[tuple[Cell | Spread, ...]] = [
        (strategy, runs[0].requests, *(Spread.of(getattr(each, name) for each in runs) for name in columns))
        for strategy, runs in found.items()
    ]
    return Table(f"{setting.title} ({_described(setting)})", ("strategy", "requests", *columns.values()), rows)


def _described(setting: Setting) -> str:
    trace = trace_of(setting.trace).part(setting.skip, setting.limit)
    if trace.is_closed_loop:
        asked = f"{setting.users} users"
    elif setting.poisson_per_s is not None:
        asked = f"Poisson, {setting.poisson_per_s * setting.speed:g} requests per second"
    else:
        asked = f"{setting.speed:g} times the recorded speed"
    return f"{asked}, {_engines(setting)}, boundless cache: {boundless_hit_rate(trace):.1%}"


def _engines(setting: Setting) -> str:
    block_tokens = trace_of(setting.trace).block_tokens
    host = f" and host tiers of {setting.host_blocks:,}" if setting.host_blocks else ""
    engines = f"{setting.workers} workers of {setting.blocks:,} blocks of {block_tokens:,} tokens{host}"
    return f"{engines}{speeds_said(setting.worker_speeds)}"


def speeds_said(speeds: Sequence[float]) -> str:
    """Return the end of a description of workers; empty if all are equally fast."""
    return f", {' : '.join(f'{speed:g}' for speed in speeds)} times as fast" if speeds else ""
