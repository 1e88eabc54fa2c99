"""Gain of host tiers in virtual time: coding agents, with a router that hears of the tiers and with one that does not.

Engines copy blocks to host memory as vLLM's OffloadingConnector does, and load 200,000 tokens per second from it, where
they compute 10,000. At first, a gateway assumes other prices of a load than the true one; what it learns is part of the
result. The crowded setting has more sessions than the caches of all GPUs hold.

Exit status: 0 the bars are met, 1 one is missed, 2 it could not be measured.
"""

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.replay.bench import COLUMNS
from benchmarks.replay.entrant import BLIND
from benchmarks.replay.job import Job, figures_of, summary_of
from benchmarks.replay.recorded import AGENTIC
from benchmarks.report import Bar, Cell, Circumstances, Report, Spread, Table, argument_parser, conclude
from engine_model.engine import EngineError
from replay.setting import Setting
from replay.summary import Summary
from routing.learning.load_rates import TierPrices

PACKAGES = ("numpy", "msgspec")
AGENTS = Setting("Coding agents", AGENTIC, 8, 1000, users=128)
CROWDED = Setting("Coding agents, crowded", AGENTIC, 8, 600, users=128, limit=152)
TRUE_PRICE = AGENTS.prefill_tokens_per_s / AGENTS.load_tokens_per_s
PRICE_ERROR = 5.0
"""Factor by which the price of a load is wrong at first."""
AGENTS_BAR_S = 0.85
CROWDED_BAR_S = 1.5
PULL_BAR_S = 0.60
PULL_LOSS_BAR = 1.02
"""Limit of the loss by pulls, where they gain nothing."""
PRICE_BAR = 1.05
"""Limit of the loss where the price of a load is wrong at first."""


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the report."""

    workload: Setting
    host_tier: float
    """Size of the host tiers, as a multiple of the GPUs' caches."""
    strategy: str = "kv_aware"
    load_price: float | None = None
    """Assumed price of a load as a share of computing; None: the default of a gateway."""
    pulls: bool = False
    """Whether workers can pull blocks from each other's host tiers."""

    @property
    def setting(self) -> Setting:
        host_blocks = round(self.host_tier * self.workload.blocks)
        return dataclasses.replace(self.workload, host_blocks=host_blocks, load_price=self.load_price, pulls=self.pulls)

    @property
    def title(self) -> str:
        price = "" if self.load_price is None else f", price {self.load_price:g} at first"
        pulls = ", with pulls" if self.pulls else ""
        return f"{self.workload.title}, host tier {self.host_tier:g}, {self.strategy}{price}{pulls}"


AWARE, CROWDED_AWARE = Case(AGENTS, 2), Case(CROWDED, 2)
RIGHT = Case(AGENTS, 2, load_price=TRUE_PRICE)
WRONG = (
    Case(AGENTS, 2, load_price=TRUE_PRICE * PRICE_ERROR),
    Case(AGENTS, 2, load_price=TRUE_PRICE / PRICE_ERROR),
)
TIERS = (0, 1, 2, 4)
PULLS = tuple(Case(workload, tier, pulls=True) for workload in (AGENTS, CROWDED) for tier in TIERS)
PULL_CASE = Case(AGENTS, 4, pulls=True)
CASES = (
    *(Case(AGENTS, 0), Case(AGENTS, 2, BLIND), AWARE, RIGHT, *WRONG),
    *(Case(AGENTS, 1, BLIND), Case(AGENTS, 1), Case(AGENTS, 4, BLIND), Case(AGENTS, 4)),
    *(Case(CROWDED, 0), Case(CROWDED, 1), Case(CROWDED, 2, BLIND), CROWDED_AWARE, Case(CROWDED, 4)),
    *PULLS,
)


PAIRS = (*(dataclasses.replace(case, pulls=False) for case in PULLS), *PULLS)
"""Rows of a report about pulls alone."""


def run(options: argparse.Namespace) -> Report:
    """Raises ``OSError`` or ``ValueError`` for a bad trace or setting, ``EngineError`` where a prompt does not fit."""
    if options.seeds < 1 or options.processes < 1:
        raise ValueError("--seeds and --processes must be at least 1")
    seeds = range(options.seed, options.seed + options.seeds)
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES)
    cases, report = CASES, Report("replay_tiers", "Host tiers, in virtual time", circumstances)
    if options.pulls:
        cases, report = PAIRS, Report("replay_pulls", "Pulls from other host tiers, in virtual time", circumstances)
    jobs = [Job(case.setting, case.strategy, seed) for case in cases for seed in seeds]
    summaries = iter(figures_of(summary_of, jobs, processes=options.processes))
    found = {case: [next(summaries) for _ in seeds] for case in cases}
    report.tables += [_table(workload, found) for workload in (AGENTS, CROWDED)]
    report.bars += _pull_bars(found) if options.pulls else [*_bars(found), *_pull_bars(found)]
    report.figures = {case.title: runs for case, runs in found.items()}
    report.notes += [
        f"Median (lowest – highest) over seeds {seeds[0]} to {seeds[-1]}. Time is virtual: no machine matters.",
        f"The true price of a load is {TRUE_PRICE:g} of the time to compute the tokens. A gateway assumes "
        f"{TierPrices().cpu:g} until it has measured loads.",
        "Pulls: a worker loads blocks from the host tier of another one, in 30 ms and 100,000 tokens per second. "
        "A gateway assumes 30 ms and a quarter of the time to compute the tokens until it has measured pulls.",
        f"{BLIND}: kv_aware without the events of the host tiers.",
    ]
    return report


def _table(workload: Setting, found: Mapping[Case, Sequence[Summary]]) -> Table:
    title = f"{workload.title}: {workload.users} users, {workload.workers} workers of {workload.blocks:,} blocks"
    rows: list[tuple[Cell | Spread, ...]] = [
        (
            case.host_tier,
            case.strategy,
            case.load_price,
            "yes" if case.pulls else "no",
            *(Spread.of(getattr(each, name) for each in runs) for name in COLUMNS),
        )
        for case, runs in found.items()
        if case.workload == workload
    ]
    return Table(title, ("host tier, times the GPU's", "router", "price at first", "pulls", *COLUMNS.values()), rows)


def _mean_s(found: Mapping[Case, Sequence[Summary]], case: Case) -> float:
    return statistics.median(each.ttft_mean_s for each in found[case])


def _bars(found: Mapping[Case, Sequence[Summary]]) -> list[Bar]:
    return [
        Bar(f"{AWARE.title}: mean TTFT, s", _mean_s(found, AWARE), "<=", AGENTS_BAR_S),
        Bar(f"{CROWDED_AWARE.title}: mean TTFT, s", _mean_s(found, CROWDED_AWARE), "<=", CROWDED_BAR_S),
        *(
            Bar(
                f"{case.title}: mean TTFT, times that with the right price",
                _mean_s(found, case) / _mean_s(found, RIGHT),
                "<=",
                PRICE_BAR,
            )
            for case in WRONG
        ),
    ]


def _pull_bars(found: Mapping[Case, Sequence[Summary]]) -> list[Bar]:
    return [
        Bar(f"{PULL_CASE.title}: mean TTFT, s", _mean_s(found, PULL_CASE), "<=", PULL_BAR_S),
        *(
            Bar(
                f"{case.title}: mean TTFT, times that without pulls",
                _mean_s(found, case) / _mean_s(found, dataclasses.replace(case, pulls=False)),
                "<=",
                PULL_LOSS_BAR,
            )
            for case in PULLS
        ),
    ]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("replay.tiers", __doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many, from --seed on")
    parser.add_argument("--pulls", action="store_true", help="measure only the rows with pulls and those beside them")
    parser.add_argument("--processes", type=int, default=1, help="replays at a time")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return conclude(
        "replay.tiers", lambda: run(options), results=options.results, cannot_run=(OSError, ValueError, EngineError)
    )


if __name__ == "__main__":
    sys.exit(main())
