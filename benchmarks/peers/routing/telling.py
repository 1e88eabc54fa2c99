"""Report of the runs of one slice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from benchmarks.chart import BarChart
from benchmarks.peers.routing.load import TTFT_P90_LIMIT_S, Look
from benchmarks.peers.routing.outcome import Outcome
from benchmarks.peers.routing.slices import turns_of
from benchmarks.peers.routing.trial import Trial
from benchmarks.peers.routing.workers import BLOCK_TOKENS, STREAM_INTERVAL
from benchmarks.report import Bar, Cell, Report, Table

MEAN_BAR = 0.8
WORSE = 1.05
KV_AWARE = "warmgate kv_aware"
BUSY_CORES = 1.5
"""Number of busy cores, of two, above which the machine may have limited the results."""

NOTES = (
    "Hit rate and tokens: as the workers count. TTFT: from when a request was due. Imbalance: prompt tokens that the "
    "busiest worker computed, over the mean of all. Busiest worker: its share of the requests. Every request counts, "
    "from cold caches on.",
    "Load 2: everybody comes and thinks twice as fast as the slice says (tau: as made up from the seed). "
    "Where only lengths and ids of blocks were recorded, each block is a message of a chat.",
)

Figure = Callable[[Outcome], float]

LOWER_IS_BETTER: Mapping[str, Figure] = {
    "TTFT mean s": lambda outcome: outcome.ttft_mean_s,
    "p50 s": lambda outcome: outcome.ttft_p50_s,
    "p90 s": lambda outcome: outcome.ttft_p90_s,
    "p99 s": lambda outcome: outcome.ttft_p99_s,
    "E2E p50 s": lambda outcome: outcome.e2e_p50_s,
    "imbalance": lambda outcome: outcome.imbalance,
}
HIT = "hit rate"


def tell(
    report: Report,
    trial: Trial,
    outcomes: Sequence[Outcome],
    *,
    load: float,
    looks: Sequence[Look] = (),
    pins: Sequence[str] = (),
) -> None:
    """Write targets, tables and notes for *outcomes* at *load*. *looks* are the runs that found the load, if any.

    *pins*: the versions of the other routers.
    """
    by_name = {outcome.router: outcome for outcome in outcomes}
    others = [outcome for outcome in outcomes if not outcome.is_ours]
    ours = by_name.get(KV_AWARE)
    if ours is not None and others:
        best = min(others, key=lambda outcome: outcome.ttft_mean_s)
        what = f"kv_aware: TTFT mean, share of the best other router's ({best.router})"
        report.bars.append(Bar(what, ours.ttft_mean_s / best.ttft_mean_s, "<=", MEAN_BAR))
        report.bars.append(Bar("kv_aware: requests that failed", sum(ours.failures.values()), "==", 0))
    report.tables.append(_figures(outcomes, load))
    report.charts.append(_chart(outcomes, load))
    if ours is not None and others:
        report.tables.append(_worse(ours, others))
    report.tables.append(_efforts(outcomes))
    report.notes += _notes(trial, outcomes, looks, pins)
    report.figures = {
        "load": load,
        "outcomes": outcomes,
        "looks": looks,
        "workers": asdict(trial.workers),
        "shrink": trial.shrink,
    }


def _figures(outcomes: Sequence[Outcome], load: float) -> Table:
    columns = ("router", "requests", "failed", HIT, *LOWER_IS_BETTER, "busiest worker")
    rows: list[Sequence[Cell]] = [
        (
            outcome.router,
            outcome.requests,
            ", ".join(f"{count}x {how}" for how, count in outcome.failures.items()) or 0,
            f"{outcome.hit_rate:.1%}",
            *(figure(outcome) for figure in LOWER_IS_BETTER.values()),
            f"{outcome.busiest_share:.0%}",
        )
        for outcome in outcomes
    ]
    return Table(f"Load {load:.3g}", columns, rows)


def _chart(outcomes: Sequence[Outcome], load: float) -> BarChart:
    times = {name: LOWER_IS_BETTER[name] for name in ("TTFT mean s", "p50 s", "p90 s")}
    series = {outcome.router: [figure(outcome) for figure in times.values()] for outcome in outcomes}
    return BarChart(f"Time to first token at load {load:.3g}", "s", list(times), series)


def _worse(ours: Outcome, others: Sequence[Outcome]) -> Table:
    """Return the figures in which the best other router is better than kv_aware by more than 5 %."""
    rows: list[Sequence[Cell]] = []
    best = max(others, key=lambda outcome: outcome.hit_rate)
    if best.hit_rate > ours.hit_rate * WORSE:
        rows.append((HIT, ours.hit_rate, best.hit_rate, best.router))
    for name, figure in LOWER_IS_BETTER.items():
        best = min(others, key=figure)
        if figure(ours) > figure(best) * WORSE:
            rows.append((name, figure(ours), figure(best), best.router))
    columns = ("figure", "kv_aware", "the best other", "which")
    return Table(
        "Where kv_aware is worse than the best other by more than 5 %", columns, rows or [("none", None, None, None)]
    )


def _efforts(outcomes: Sequence[Outcome]) -> Table:
    columns = ("router", "clients", "router, cores", "workers", "all", "sent late, p99 s", "output tokens", "took s")
    rows = [
        (
            outcome.router,
            outcome.effort.clients,
            outcome.effort.router,
            outcome.effort.workers,
            outcome.effort.cores,
            outcome.late_p99_s,
            outcome.output_tokens,
            outcome.took_s,
        )
        for outcome in outcomes
    ]
    return Table("What the programs took of the machine, as busy cores", columns, rows)


def _notes(trial: Trial, outcomes: Sequence[Outcome], looks: Sequence[Look], pins: Sequence[str]) -> list[str]:
    workers = trial.workers
    turns = sum(1 for _ in turns_of(trial.sessions))
    notes = [
        f"{turns:,} requests of {len(trial.sessions):,} sessions. {workers.count} simulated workers "
        f"({workers.timing}), each with {workers.blocks:,} blocks of {BLOCK_TOKENS} tokens, "
        f"{workers.prefill_tokens_per_s:,.0f} uncached tokens of prefill per second and {workers.tpot_ms:g} ms per "
        f"output token; after the first, {STREAM_INTERVAL} tokens are one event of a stream.",
        _lengths(trial.shrink),
        f"Workers and clients live {workers.speed:g} times as fast as the clock; all figures but the last are in their "
        "time. So what a router takes itself counts that many times.",
        *NOTES,
    ]
    if looks:
        notes.append(_search(looks))
    if any(outcome.effort.cores > BUSY_CORES for outcome in outcomes):
        notes.append("**The machine was nearly full: it may have been the limit. Lower --speed.**")
    if pins:
        notes.append(f"Other routers: {', '.join(pins)}, with their defaults; seconds in them pass as for the workers.")
    return notes


def _lengths(shrink: int) -> str:
    if shrink == 1:
        return "Prompts and answers are as long as recorded."
    return (
        f"Prompts, caches and rates of prefill are {shrink} times smaller than recorded: times are the same, "
        "and bodies are smaller. Answers are as long as recorded."
    )


def _search(looks: Sequence[Look]) -> str:
    shown = "; ".join(f"{look.router} at {look.load:.3g}: {look.ttft_p90_s:.3g} s" for look in looks)
    return (
        "The load was found with short runs, as the highest at which the best other router keeps TTFT p90 within "
        f"{TTFT_P90_LIMIT_S:g} s: {shown}."
    )
