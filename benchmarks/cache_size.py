"""Hit rate of routing policies against the size of a worker's cache, on recorded coding agents in virtual time.

Exit status: 0 if the measurement succeeded, 2 if it failed.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks.replay.job import Job, figures_of, summary_of
from benchmarks.replay.recorded import AGENTIC
from benchmarks.report import Circumstances, Report, Table, argument_parser, conclude
from engine_model.engine import EngineError
from replay.setting import Setting

WORKERS = 4
USERS = 32
SESSIONS = 80
BLOCKS = (300, 500, 800, 1300)
"""Sizes of a worker's cache, in blocks of 1,024 tokens."""
BLOCK_TOKENS = 1024
STRATEGIES = ("kv_aware", "prefix_aware", "round_robin", "llm_d", "dynamo_1", "sglang_cache_aware")


def run(options: argparse.Namespace) -> Report:
    """Run the benchmark. Raises ``ValueError`` for invalid options, and ``EngineError`` if a prompt does not fit into a
    cache.
    """
    report = Report(
        "cache_size",
        "Hit rate against the size of a worker's cache, in virtual time",
        Circumstances.observe(seed=options.seed, packages=("numpy", "msgspec")),
    )
    settings = {
        blocks: Setting("Coding agents", AGENTIC, WORKERS, blocks, users=options.users, limit=options.sessions)
        for blocks in options.blocks
    }
    jobs = [Job(setting, strategy, options.seed) for strategy in options.strategies for setting in settings.values()]
    found = iter(figures_of(summary_of, jobs, processes=options.processes))
    summaries = {strategy: {blocks: next(found) for blocks in settings} for strategy in options.strategies}
    sizes = [f"{blocks * BLOCK_TOKENS:,} tokens" for blocks in settings]
    for title, name in (("Hit rate", "hit"), ("Mean time to first token, s", "ttft_mean_s")):
        rows = [
            (strategy, *(float(getattr(summary, name)) for summary in of_strategy.values()))
            for strategy, of_strategy in summaries.items()
        ]
        report.tables.append(Table(title, ("strategy", *sizes), rows))
    report.figures["hit rate"] = {
        strategy: [(blocks * BLOCK_TOKENS, summary.hit) for blocks, summary in of_strategy.items()]
        for strategy, of_strategy in summaries.items()
    }
    report.figures["summaries"] = summaries
    report.notes += [
        f"{options.sessions} sessions of recorded coding agents, {options.users} users, {WORKERS} simulated workers. "
        "The columns are cache sizes of "
        "one worker. Hit rate: cached share of all prompt tokens.",
        "kv_aware, prefix_aware and round_robin are the objects that serve in production. Policies of others are "
        "written from descriptions, see benchmarks/policies.",
        "Time is virtual: no machine matters.",
    ]
    return report


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("cache_size", __doc__)
    parser.add_argument("--blocks", type=int, nargs="+", default=BLOCKS, help="sizes of a worker's cache")
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="how many to replay")
    parser.add_argument("--processes", type=int, default=1, help="replays at a time")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return conclude(
        "cache_size", lambda: run(options), results=options.results, cannot_run=(OSError, ValueError, EngineError)
    )


if __name__ == "__main__":
    sys.exit(main())
