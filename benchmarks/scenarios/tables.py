"""Outcomes as tables: what each strategy did, and what is left of round robin's figures."""

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.report import Cell, Spread, Table
from benchmarks.scenarios.outcome import Outcome, cost_usd

BASE = "round_robin"
Found = Mapping[str, Sequence[Outcome]]
"""Outcomes of one case by strategy, one for each seed."""


def change(found: Found, strategy: str, figure: str) -> Spread:
    """Return how much *figure* of `Outcome` is above round robin's of the same seed, as a share of it."""
    return Spread.of(
        getattr(ours, figure) / getattr(base, figure) - 1
        for ours, base in zip(found[strategy], found[BASE], strict=True)
    )


def median(found: Found, strategy: str, figure: str) -> float:
    values: list[float] = [getattr(outcome, figure) for outcome in found[strategy]]
    return statistics.median(values)


def times(title: str, found: Found) -> Table:
    """Hit rate and times of each strategy; the changes stand beside them."""
    columns = (
        *("strategy", "requests", "hit rate", "TTFT mean s", "p50 s", "p90 s", "p99 s", "latency mean s"),
        *("p50 against round robin", "p90 against round robin", "latency against round robin"),
    )
    figures = ("hit", "ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "latency_mean_s")
    rows: list[Sequence[Cell | Spread]] = [
        (
            strategy,
            outcomes[0].requests,
            *(_shown([getattr(outcome, name) for outcome in outcomes]) for name in figures),
            *(_signed(change(found, strategy, name)) for name in ("ttft_p50_s", "ttft_p90_s", "latency_mean_s")),
        )
        for strategy, outcomes in found.items()
    ]
    return Table(title, columns, rows)


def costs(title: str, found: Found, usd_per_hour: float) -> Table:
    """Throughput, GPU time and money of each strategy."""
    columns = (
        *("strategy", "answers per s", "output tokens per s", "prefill, share of GPU time"),
        *("GPU-s per 1,000 requests", "USD per 1,000 requests", "throughput against round robin"),
        "cost against round robin",
    )
    rows: list[Sequence[Cell | Spread]] = [
        (
            strategy,
            *(
                _shown([getattr(outcome, name) for outcome in outcomes])
                for name in ("answers_per_s", "output_tokens_per_s", "prefill_share", "gpu_s")
            ),
            _shown([cost_usd(outcome.gpu_s, usd_per_hour) for outcome in outcomes]),
            _signed(change(found, strategy, "answers_per_s")),
            _signed(change(found, strategy, "gpu_s")),
        )
        for strategy, outcomes in found.items()
    ]
    return Table(title, columns, rows)


def sensitivity(title: str, across: str, found: Mapping[str, Found], figures: Mapping[str, str]) -> Table:
    """A row for each case of *found*: *figures* of `Outcome`, each of round robin, and how far ours are from it."""
    strategies = [strategy for strategy in next(iter(found.values())) if strategy != BASE]
    columns = [across, "hit rate: round robin", *(f"hit rate: {strategy}" for strategy in strategies)]
    for name in figures.values():
        columns += [f"{name}: round robin", *(f"{name}: {strategy}" for strategy in strategies)]
    rows: list[Sequence[Cell | Spread]] = []
    for case, outcomes in found.items():
        row: list[Cell | Spread] = [case, *(round(median(outcomes, each, "hit"), 3) for each in (BASE, *strategies))]
        for figure in figures:
            row.append(median(outcomes, BASE, figure))
            row += [percent(change(outcomes, strategy, figure).median) for strategy in strategies]
        rows.append(row)
    return Table(title, columns, rows)


def percent(share: float) -> str:
    return f"{100 * share:+.0f} %"


def _shown(values: Sequence[float]) -> float | Spread:
    return Spread.of(values) if len(values) > 1 else values[0]


def _signed(spread: Spread) -> str:
    if spread.median == spread.lowest == spread.highest:
        return percent(spread.median)
    return f"{percent(spread.median)} ({100 * spread.lowest:+.0f} – {100 * spread.highest:+.0f})"
