"""Gain of prefix-aware routing as a function of the share of a prompt that requests have in common, in virtual time.

All prompts have the same length, begin with one of several prefixes, and end with unique text. Round robin is the case
without routing. If each worker's cache holds all prefixes, round robin hits them too, and routing gains little.

Exit status: 0 if the measurement succeeded, 2 if it failed.
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence

from benchmarks.report import Cell, Circumstances, Report, Spread, Table, argument_parser, conclude
from benchmarks.scenarios.contexts import BLOCK_TOKENS, Contexts
from benchmarks.scenarios.outcome import Outcome
from benchmarks.scenarios.trial import CACHE_TOKENS, AtRate, Bench, Case, Fleet
from engine_model.engine import EngineError

WORKERS = 4
PROMPT_TOKENS = 4096
PREFIXES = (20, 200, 2000)
"""Numbers of prefixes that are in use at the same time."""
SHARES = (0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
REQUESTS_PER_S = 6.7
"""Request rate: seven tenths of the rate that four workers can compute without cached prompts."""
USES = 100
"""Number of requests for each prefix before a new one replaces it."""
STRATEGIES = ("round_robin", "prefix_aware", "kv_aware")


def contexts(prefixes: int, share: float, requests: int) -> Contexts:
    """Return requests whose prompts begin with one of *prefixes* prefixes. A prefix is *share* of the prompt."""
    shared = round(share * PROMPT_TOKENS / BLOCK_TOKENS) * BLOCK_TOKENS
    # A prefix of one token is less than a block: no cache ever holds it.
    shared = max(shared, 1)
    own = PROMPT_TOKENS - shared
    return Contexts(shared, prefixes, 1 / USES, requests, question_tokens=(own, own))


def run(options: argparse.Namespace) -> Report:
    """Run the benchmark. Raises ``ValueError`` for invalid options."""
    seeds = range(options.seed, options.seed + options.seeds)
    report = Report(
        "common_prefix",
        "Gain of routing against the share of a common prefix, in virtual time",
        Circumstances.observe(seed=options.seed, packages=("numpy", "msgspec")),
    )
    bench = Bench(seeds, options.processes, STRATEGIES)
    gains: dict[str, list[tuple[float, float]]] = {}
    for prefixes in PREFIXES:
        cases = [
            Case(
                f"{prefixes:,} prefixes",
                AtRate(contexts(prefixes, share, options.requests), REQUESTS_PER_S),
                Fleet(WORKERS),
            )
            for share in SHARES
        ]
        found = bench.outcomes(cases)
        report.tables.append(_table(cases[0].name, found))
        gains[str(prefixes)] = [(share, _gain(outcomes)) for share, outcomes in zip(SHARES, found, strict=True)]
        report.figures[cases[0].name] = dict(zip(map(str, SHARES), found, strict=True))
    report.figures["gains"] = gains
    report.notes += [
        f"Prompts of {PROMPT_TOKENS:,} tokens, {REQUESTS_PER_S} requests per second as a Poisson process, "
        f"{options.requests:,} of each case. A prefix is used by {USES} requests on average, then replaced.",
        f"{WORKERS} simulated workers with caches of {CACHE_TOKENS:,} tokens each, one prefill at a time, 10,000 "
        "uncached tokens per second.",
        f"Median (lowest – highest) over seeds {seeds[0]} to {seeds[-1]}. Time is virtual: no machine matters.",
    ]
    return report


def _table(title: str, found: Sequence[Mapping[str, Sequence[Outcome]]]) -> Table:
    rows: list[tuple[Cell | Spread, ...]] = [
        (
            f"{share:.1%}",
            *(Spread.of(outcome.hit for outcome in outcomes[name]) for name in STRATEGIES),
            *(Spread.of(outcome.ttft_mean_s for outcome in outcomes[name]) for name in STRATEGIES),
        )
        for share, outcomes in zip(SHARES, found, strict=True)
    ]
    hits, times = ([f"{what}: {name}" for name in STRATEGIES] for what in ("hit rate", "TTFT mean s"))
    return Table(title, ("common share of a prompt", *hits, *times), rows)


def _gain(outcomes: Mapping[str, Sequence[Outcome]]) -> float:
    """Return the mean time to first token with round robin, divided by that with kv_aware."""
    without, ours = (
        statistics.median(outcome.ttft_mean_s for outcome in outcomes[name]) for name in ("round_robin", "kv_aware")
    )
    return without / ours


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("common_prefix", __doc__)
    parser.add_argument("--requests", type=int, default=3000, help="of each case")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return conclude(
        "common_prefix", lambda: run(options), results=options.results, cannot_run=(ValueError, EngineError)
    )


if __name__ == "__main__":
    sys.exit(main())
