"""The slices of `benchmarks.peers.routing` in virtual time: what a policy makes of them at one load after the other.

The same sessions, engines and caches as over HTTP, in blocks of 16 tokens; every request counts, from cold caches on,
and answers take room in the caches as well. Only the clock is another, and nothing between caller and engine takes any
time. So a load takes seconds, and a change of a policy is seen from idle workers to full ones. Policies of others are
those of `benchmarks.policies`, written from descriptions; over HTTP run the routers themselves.

With other than four workers there are sessions and load in proportion, so that each worker has as much to do.

Exit status: 0 it was measured, 2 it could not be.
"""

import argparse
import dataclasses
import functools
import itertools
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.routing.outcome import percentile
from benchmarks.peers.routing.slices import SLICES, Session, Slice, Slicing
from benchmarks.peers.routing.workers import BLOCK_TOKENS
from benchmarks.replay.bench import COLUMNS as REPLAYED
from benchmarks.replay.bench import speeds_said
from benchmarks.replay.command import add_speeds, numbers, strategy_names
from benchmarks.replay.entrant import ENTRANTS
from benchmarks.replay.job import each_of
from benchmarks.report import Cell, Circumstances, Report, Spread, Table, argument_parser, conclude
from engine_model.engine import EngineError
from replay.entrant import GATEWAY_TOKENS_PER_S
from replay.run import Answer, Run
from replay.setting import Setting
from replay.trace import Recorded, Trace
from replay.workload import OpenSessions, SessionStart
from routing.strategies import NAMES
from simulator.rendering import render_chat
from simulator.tokens import TokenSequence, block_hashes

WORKERS = 4
LOADS: Mapping[str, Sequence[float]] = {"tau": (4, 8, 12), "conversation": (0.3, 0.4), "agentic": (1.5, 2.2, 2.5)}
"""Times as fast as the slice's own times; those of the record, with four workers."""
ALL_AT_ONCE = ("agentic",)
"""Slices whose sessions all go on at the same time: twice as many are twice the load, at the same speed."""
PLAYED = (
    *("kv_aware", "prefix_aware", "session_hash", "llm_d", "llm_d_sticky", "lmetric", "dynamo_best", "thunder_agent"),
    *("min_ttft", "policy_a", "bound_first_come"),
)
PACKAGES = ("numpy", "msgspec")
ANSWERS_FROM = 2**31
"""Ids of blocks that no one asks for again: those of answers. All ids have 32 bits."""


def asked(sessions: Sequence[Session]) -> list[SessionStart]:
    """Return the requests of *sessions*, as lengths and ids of blocks. O(characters)."""
    ids: dict[int, int] = {}
    numbers, others = itertools.count(), itertools.count(ANSWERS_FROM)
    found = []
    for place, session in enumerate(sessions):
        requests = []
        for turn in session.turns:
            tokens = TokenSequence.from_text(render_chat(turn.prompt.messages()))
            hashes = block_hashes(tokens, block_size=BLOCK_TOKENS, scope=())
            number = next(numbers)
            blocks = tuple(ids.setdefault(each, len(ids)) for each in hashes)
            # An engine does not compute the last token that it generates.
            filled = (len(tokens) + turn.output_tokens - 1) // BLOCK_TOKENS
            answer = tuple(next(others) for _ in range(len(blocks), filled))
            requests.append(Recorded(number, str(place), turn.wait_s, len(tokens), turn.output_tokens, blocks, answer))
        found.append(SessionStart(session.begins_s, requests))
    return found


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one run, over all its requests."""

    hit: float
    """Share of all prompt tokens that came out of a cache."""
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    imbalance: float
    """Prompt tokens that the busiest worker had to compute, over the mean of all."""
    busiest: float
    """Share of the requests that the worker with most of them got."""

    @classmethod
    def of(cls, answers: Sequence[Answer], workers: int) -> "Figures":
        ttft = sorted(answer.ttft_s for answer in answers)
        computed, requests = Counter[int](), Counter[int]()
        for answer in answers:
            computed[answer.worker] += answer.prompt_tokens - answer.cached_tokens
            requests[answer.worker] += 1
        p50, p90, p99 = (percentile(ttft, percent) for percent in (50, 90, 99))
        return cls(
            hit=sum(answer.cached_tokens for answer in answers) / sum(answer.prompt_tokens for answer in answers),
            ttft_mean_s=statistics.fmean(ttft),
            ttft_p50_s=p50,
            ttft_p90_s=p90,
            ttft_p99_s=p99,
            imbalance=max(computed.values()) * workers / computed.total(),
            busiest=max(requests.values()) / len(answers),
        )


COLUMNS = {**REPLAYED, "busiest": "busiest worker"}


@dataclass(frozen=True, slots=True)
class Play:
    """One run: *strategy* before the sessions of a slice."""

    slice: str
    """Name in `SLICES`."""
    slicing: Slicing
    strategy: str
    load: float
    workers: int = WORKERS
    worker_speeds: Sequence[float] = ()
    """Factors of the speed of each worker's engine, as in `Setting`."""


def setting_of(cut: Slice, strategy: str, *, workers: int = WORKERS, worker_speeds: Sequence[float] = ()) -> Setting:
    """The engines of *cut*, and what *strategy* believes of them: ours what a gateway does, in shrunk tokens too.

    Raises:
        ValueError: there can be no such workers.
    """
    setting = Setting(
        cut.title,
        Path(),
        workers,
        cut.rates.blocks // cut.shrink,
        prefill_tokens_per_s=cut.rates.prefill_tokens_per_s / cut.shrink,
        worker_speeds=worker_speeds,
    )
    if strategy not in NAMES:
        return setting
    believed = GATEWAY_TOKENS_PER_S / cut.shrink
    return dataclasses.replace(setting, rate_error=believed / setting.mean_tokens_per_s)


@functools.cache
def sessions_of(name: str, slicing: Slicing) -> Sequence[SessionStart]:
    """The requests of a slice, read once in each process."""
    return asked(SLICES[name].sessions(slicing))


def played(cut: Slice, sessions: Sequence[SessionStart], play: Play) -> Figures:
    """One run of *play* with *sessions*.

    Raises:
        EngineError: a prompt does not fit into a cache.
    """
    coming = [session.at(play.load) for session in sessions]
    trace = Trace(BLOCK_TOKENS, True, [request for session in coming for request in session.requests])
    setting = setting_of(cut, play.strategy, workers=play.workers, worker_speeds=play.worker_speeds)
    entrant = ENTRANTS[play.strategy]
    answers = Run(trace, setting, entrant, seed=play.slicing.seed, workload=OpenSessions(coming)).answers()
    return Figures.of(answers, entrant.workers(setting))


def figures_of(play: Play) -> Figures:
    """The figures of one run; raises as `played`."""
    return played(SLICES[play.slice], sessions_of(play.slice, play.slicing), play)


def loads_of(name: str, workers: int) -> Sequence[float]:
    """The loads for the record, as much for each of *workers* as for each of four."""
    return [load if name in ALL_AT_ONCE else load * workers / WORKERS for load in LOADS[name]]


def run(options: argparse.Namespace) -> Report:
    """Raises ``EngineError`` or ``ValueError``."""
    if options.seeds < 1 or options.processes < 1 or options.workers < 1:
        raise ValueError("--seeds, --processes and --workers must be at least 1")
    cut = SLICES[options.slice]
    size = options.size or max(1, cut.size * options.workers // WORKERS)
    seeds = range(options.seed, options.seed + options.seeds)
    slicings = [Slicing(size, cut.most_turns, cut.shrink, seed) for seed in seeds]
    loads = options.loads or loads_of(options.slice, options.workers)
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES)
    report = Report(_name(options), _title(cut, options), circumstances)
    plays = [
        Play(options.slice, slicing, strategy, load, options.workers, options.worker_speeds)
        for load, strategy, slicing in itertools.product(loads, options.strategies, slicings)
    ]
    # Processes that start from this one have them already.
    requests = [sum(len(session.requests) for session in sessions_of(options.slice, slicing)) for slicing in slicings]
    found: dict[float, dict[str, list[Figures]]] = {}
    for play, figures in zip(plays, each_of(figures_of, plays, cut.title, processes=options.processes), strict=True):
        found.setdefault(play.load, {}).setdefault(play.strategy, []).append(figures)
    report.tables += [_table(f"Load {load:g}", by_strategy) for load, by_strategy in found.items()]
    report.figures = {str(load): by_strategy for load, by_strategy in found.items()}
    report.notes.append(
        f"Median (lowest – highest) over seeds {seeds[0]} to {seeds[-1]}, by which also the slice is cut. "
        f"{requests[0]:,} requests with the first of them. Time is virtual: no machine matters."
    )
    return report


def _table(title: str, by_strategy: Mapping[str, Sequence[Figures]]) -> Table:
    rows: list[tuple[Cell | Spread, ...]] = [
        (strategy, *(Spread.of(getattr(each, name) for each in figures) for name in COLUMNS))
        for strategy, figures in by_strategy.items()
    ]
    return Table(title, ("strategy", *COLUMNS.values()), rows)


def _name(options: argparse.Namespace) -> str:
    """The report's: each fleet has a file of its own."""
    workers = "" if options.workers == WORKERS else f"_{options.workers}_workers"
    return f"replay_slice_{options.slice}{workers}{'_unequal' if options.worker_speeds else ''}"


def _title(cut: Slice, options: argparse.Namespace) -> str:
    workers = "" if options.workers == WORKERS else f", {options.workers} workers"
    return f"In virtual time: {cut.title}{workers}{speeds_said(options.worker_speeds)}"


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("replay.slices", __doc__)
    parser.add_argument("--slice", choices=tuple(SLICES), required=True)
    parser.add_argument(
        "--loads",
        type=numbers,
        help="times as fast as the slice's own times, with commas between; default: those of the record, by workers",
    )
    parser.add_argument(
        "--strategies", type=strategy_names, default=list(PLAYED), help=f"with commas between: {', '.join(ENTRANTS)}"
    )
    parser.add_argument(
        "--size", type=int, help="conversations, requests or sessions of the trace; default: in proportion to workers"
    )
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"default: {WORKERS}")
    add_speeds(parser)
    parser.set_defaults(worker_speeds=())
    parser.add_argument("--seeds", type=int, default=8, help="how many, from --seed on")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return conclude(
        "replay.slices", lambda: run(options), results=options.results, cannot_run=(OSError, ValueError, EngineError)
    )


if __name__ == "__main__":
    sys.exit(main())
