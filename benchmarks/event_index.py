"""Part of `benchmarks.index` that compares the index of KV events with Dynamo's `RadixTree`."""

import argparse
from collections.abc import Callable

from benchmarks.peers.dynamo.rounds import Found, Program, Sides, by_turns, run
from benchmarks.peers.environment import PEERS, install
from benchmarks.processes import Processes
from benchmarks.report import Bar, Report, Table
from benchmarks.shipped import build

SYSTEM_PROMPTS = 8
MOST_TIME = 3.0
"""Maximum time, as a multiple of Dynamo's time."""
DYNAMO = PEERS["dynamo"]

Figure = Callable[[Found], float]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--told", type=int, default=500_000, help="blocks that engines told of, over all workers")
    parser.add_argument("--rounds", type=int, default=5, help="beside Dynamo")
    parser.add_argument("--sources", action="store_true", help="do not build the wheel with the compiled core")


def beside_dynamo(report: Report, arguments: argparse.Namespace) -> None:
    """Add the results of both programs for the same trial to *report*.

    Raises:
        NotInstalledError: if Dynamo is not installed and cannot be installed.
        ChildFailedError: if Warmgate's wheel cannot be built, or a process failed.
    """
    install(DYNAMO)
    with Processes() as processes:
        shipped = None if arguments.sources else build()
        ours, theirs = Program.ours("warmgate_index", shipped), Program.of(DYNAMO, "dynamo_index")

        def sides(systems: int) -> Sides:
            trial = {"seed": arguments.seed, "workers": arguments.workers, "blocks": arguments.told, "systems": systems}
            return by_turns(
                lambda: run(processes, ours, trial), lambda: run(processes, theirs, trial), rounds=arguments.rounds
            )

        shared, single = sides(SYSTEM_PROMPTS), sides(0)
    tell(report, shared, single, f"{arguments.workers} workers, {arguments.told:,} blocks")


def tell(report: Report, shared: Sides, single: Sides, caches: str) -> None:
    """Write targets and a table. In *shared* trials prompts have system prompts, in *single* trials each block is on
    one worker.
    """
    spreads = {name: shared.spreads(figure) for name, figure in FIGURES.items()}
    spreads[SINGLE_MEMORY] = single.spreads(bytes_per_block)
    report.bars += [
        Bar(f"{name}: ours, of Dynamo's", spreads[name][2].median, "<=", most) for name, most in MOST.items()
    ]
    report.bars.append(Bar("matches that are not what the engines told", shared.wrong + single.wrong, "==", 0))
    rows = [(name, *three) for name, three in spreads.items()]
    report.tables.append(
        Table(f"What engines told: {caches}", ("", "ours", "Dynamo's RadixTree", "ours, of Dynamo's"), rows)
    )
    report.notes += NOTES
    report.figures["told"] = {"shared": shared, "single": single}


def per_block_ns(work: str, clock: str = "wall_s") -> Figure:
    """Return nanoseconds per block for *work*, a part of a trial, as measured by *clock*."""
    return lambda found: found[work][clock] / found[work]["blocks"] * 1e9


def lookup_us(times: str, kind: str) -> Figure:
    return lambda found: float(found[times][kind])


def bytes_per_block(found: Found) -> float:
    """Return the highest bytes per block after half of the trial, because tables grow in steps."""
    readings: list[float] = found["bytes_per_block"]
    return max(readings[len(readings) // 2 :])


INGEST = "told in runs, ns per block"
INGEST_PER_CORE = "told in runs, ns of processor time per block"
HIT = "match of 272 blocks that a worker has, µs"
MISS = "match of 272 blocks that nobody has, µs"
SHARED_MEMORY = "bytes per held block, system prompts on many workers"
SINGLE_MEMORY = "bytes per held block, each on one worker"
FIGURES: dict[str, Figure] = {
    INGEST: per_block_ns("stored"),
    INGEST_PER_CORE: per_block_ns("stored", "cpu_s"),
    "told one by one, ns per block": per_block_ns("stored_singly"),
    "removed 32 at a time, ns per block": per_block_ns("removed"),
    "removed one by one, ns per block": per_block_ns("removed_singly"),
    HIT: lookup_us("match_us", "whole"),
    "match of 272 blocks of which many workers have 64, µs": lookup_us("match_us", "system"),
    MISS: lookup_us("match_us", "new"),
    "hash and match of 272 blocks that a worker has, µs": lookup_us("hash_and_match_us", "whole"),
    "hash and match of 272 blocks that nobody has, µs": lookup_us("hash_and_match_us", "new"),
    SHARED_MEMORY: bytes_per_block,
}
MOST = {
    INGEST: MOST_TIME,
    INGEST_PER_CORE: MOST_TIME,
    HIT: MOST_TIME,
    MISS: MOST_TIME,
    SHARED_MEMORY: 1.0,
    SINGLE_MEMORY: 1.0,
}
NOTES = [
    "Told: ours decodes vLLM's msgpack and hashes 16 tokens a block; Dynamo's binding decodes JSON with two ready "
    "hashes a block. One by one: a batch of eight events for ours, as one step of an engine sends them, eight calls "
    "for Dynamo's.",
    "Memory is the growth of the resident memory of a fresh process, the worst reading from half full on.",
    "Times are of the clock on the wall where nothing else is said. Dynamo's tree works in a thread of its own: its "
    "processor time is that of both threads.",
]
