"""Seven replicas before contexts of 8,000 and of 64,000 tokens, at constant load.

Time to first token is measured in an open loop, at a rate that does not heed the answers; throughput and cost in a
closed loop, with as many requests in flight at any time. Both ask about the same kind of contexts: as many are live as
fill half of the fleet's caches, and 12 % of the requests begin a new one, so that each is asked about some eight times
and the request at the 90th percentile is a cold one, as in what others published.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.report import Bar, Report
from benchmarks.scenarios.contexts import Contexts
from benchmarks.scenarios.tables import Found, change, costs, sensitivity, times
from benchmarks.scenarios.trial import CACHE_TOKENS, AtRate, Bench, Case, Fleet, InFlight

REPLICAS = 7
NEW_SHARE = 0.12
LIVE_SHARE = 0.5
"""Share of all caches that the live contexts fill."""
FLEET = Fleet(REPLICAS)


@dataclass(frozen=True, slots=True)
class Size:
    """One length of contexts, the load, what was published for it, and what we promise."""

    name: str
    context_tokens: int
    requests: int
    per_s: float
    """Rate of the open loop: round robin's GPUs are four fifths busy with prompts."""
    in_flight: int
    """Requests of the closed loop: eight for each replica, or as many as its cache can hold where those are fewer."""
    published: str
    bars: Mapping[str, float]
    """Least changes against round robin: of TTFT p50, p90, answers per second, cost."""

    def contexts(self) -> Contexts:
        live = int(LIVE_SHARE * REPLICAS * CACHE_TOKENS / self.context_tokens)
        return Contexts(self.context_tokens, live, NEW_SHARE, self.requests)


SIZES = (
    Size(
        "8k",
        8_000,
        4_000,
        8.7,
        8 * REPLICAS,
        "TTFT p50 -72 %, p90 -40 %, throughput +24 %, cost -21 %",
        {"ttft_p50_s": -0.80, "ttft_p90_s": -0.45, "answers_per_s": 0.30, "gpu_s": -0.25},
    ),
    Size(
        "64k",
        64_000,
        2_000,
        1.13,
        4 * REPLICAS,
        "TTFT p50 -94 %, p90 -35 %, throughput +38 %, cost -28 %",
        {"ttft_p50_s": -0.96, "ttft_p90_s": -0.45, "answers_per_s": 0.45, "gpu_s": -0.32},
    ),
)
NAMES = {
    "ttft_p50_s": "TTFT p50",
    "ttft_p90_s": "TTFT p90",
    "answers_per_s": "answers per second",
    "gpu_s": "cost",
}
NEW_SHARES = (0.02, 0.05, NEW_SHARE, 0.25, 0.5, 1.0)
OPEN, CLOSED = ("ttft_p50_s", "ttft_p90_s"), ("answers_per_s", "gpu_s")


def record(bench: Bench, report: Report, usd_per_hour: float) -> None:
    """Tables, bars and sensitivities of both sizes, into *report*."""
    for size in SIZES:
        _record_size(size, bench, report, usd_per_hour)
        for knob in knobs(size):
            knob.record(bench.with_one_seed(), report)
    report.notes += _notes()


def _record_size(size: Size, bench: Bench, report: Report, usd_per_hour: float) -> None:
    opened, closed = bench.outcomes([_open(size), _closed(size)])
    asked = f"{size.name}: {size.contexts().live} live contexts of {size.context_tokens:,} tokens"
    report.tables += [
        times(f"{asked}, {size.per_s:g} requests per second", opened),
        costs(f"{asked}, {size.in_flight} requests in flight", closed, usd_per_hour),
    ]
    for name in ("kv_aware", "prefix_aware"):
        report.bars += [*_bars(size, name, opened, OPEN), *_bars(size, name, closed, CLOSED)]
    report.figures[size.name] = {"published": size.published, "open loop": opened, "closed loop": closed}


def _bars(size: Size, strategy: str, found: Found, figures: Sequence[str]) -> list[Bar]:
    """Return the bars for one of our strategies."""
    return [
        Bar(
            f"{size.name}: {strategy}'s {NAMES[figure]}, change against round robin (median of seeds)",
            change(found, strategy, figure).median,
            "<=" if size.bars[figure] < 0 else ">=",
            size.bars[figure],
        )
        for figure in figures
    ]


def _open(size: Size, *, contexts: Contexts | None = None, per_s: float | None = None, fleet: Fleet = FLEET) -> Case:
    return Case(size.name, AtRate(contexts or size.contexts(), per_s or size.per_s), fleet)


def _closed(
    size: Size, *, contexts: Contexts | None = None, in_flight: int | None = None, fleet: Fleet = FLEET
) -> Case:
    return Case(size.name, InFlight(contexts or size.contexts(), in_flight or size.in_flight), fleet)


@dataclass(frozen=True, slots=True)
class Knob:
    """One number of the workload, turned; all else as in the large runs."""

    title: str
    across: str
    cases: Mapping[str, Case]
    figures: Sequence[str]

    def record(self, bench: Bench, report: Report) -> None:
        found = dict(zip(self.cases, bench.outcomes(list(self.cases.values())), strict=True))
        figures = {figure: NAMES[figure] for figure in self.figures}
        report.tables.append(sensitivity(self.title, self.across, found, figures))
        report.figures[self.title] = found


def knobs(size: Size) -> list[Knob]:
    """Return the knobs that change the workload; half of the requests each."""
    contexts = dataclasses.replace(size.contexts(), requests=size.requests // 2)
    rates = [size.per_s * factor for factor in (0.25, 0.5, 0.75, 1.0, 1.1)]
    crowds = [each * REPLICAS for each in (1, 2, 4, 8, 16)]
    found = [
        Knob(
            f"{size.name}: rate, open loop",
            "requests per s",
            {f"{rate:.3g}": _open(size, contexts=contexts, per_s=rate) for rate in rates},
            OPEN,
        ),
        Knob(
            f"{size.name}: concurrency, closed loop",
            "in flight",
            {str(crowd): _closed(size, contexts=contexts, in_flight=crowd) for crowd in crowds},
            CLOSED,
        ),
    ]
    renewed = {f"{share:.0%}": dataclasses.replace(contexts, new_share=share) for share in NEW_SHARES}
    caches = {f"{factor:g} times": Fleet(REPLICAS, int(factor * CACHE_TOKENS)) for factor in (0.5, 1.0, 2.0, 4.0, 8.0)}
    chunked = Fleet(REPLICAS, timing="chunked")
    for loop, case, figures in (("open loop", _open, OPEN), ("closed loop", _closed, CLOSED)):
        found += [
            Knob(
                f"{size.name}: share of requests that begin a new context, {loop}",
                "new contexts",
                {name: case(size, contexts=other) for name, other in renewed.items()},
                figures,
            ),
            Knob(
                f"{size.name}: cache of a worker, {loop}",
                "cache",
                {name: case(size, contexts=contexts, fleet=other) for name, other in caches.items()},
                figures,
            ),
            Knob(
                f"{size.name}: engines that batch with chunked prefill, {loop}",
                "engines",
                {"chunked": case(size, contexts=contexts, fleet=chunked)},
                figures,
            ),
        ]
    return found


def _notes() -> list[str]:
    contexts = SIZES[0].contexts()
    return [
        f"{REPLICAS} replicas of one GPU each. A context is asked about {1 / NEW_SHARE:.1f} times in the mean, by "
        f"questions of {contexts.question_tokens[0]} to {contexts.question_tokens[1]} tokens with answers of "
        f"{contexts.answer_tokens[0]} to {contexts.answer_tokens[1]}; {NEW_SHARE:.0%} of the requests begin a new one. "
        f"As many contexts are live as fill {LIVE_SHARE:.0%} of all caches together.",
        "Times: open loop, Poisson. Throughput and cost: closed loop, constant concurrency.",
        "Published for the same lengths on seven replicas against no routing, workload otherwise unknown: "
        + "; ".join(f"{size.name}: {size.published}" for size in SIZES)
        + ".",
        "Where the load is light, or few contexts are new and all fit everywhere, there is less to gain: the tables of "
        "single knobs show it, of one seed, round robin's own figure and the changes against it.",
    ]
