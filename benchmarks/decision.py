"""Cost of choosing a worker for a prompt of 16,384 token ids, compared with Dynamo's `select`.

64 workers hold half a million blocks of 16 tokens, which both programs learn from vLLM's events. Prompts are a later
turn of a conversation that one worker has cached, a new question after a system prompt that many workers have cached,
and a completely new prompt. Warmgate hashes the tokens, matches KV events and ranks the workers. Dynamo's
`SelectionService` runs in its own process, without HTTP. Both programs run in turn, each time in a new process.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run, for example without Dynamo.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence

from benchmarks.peers.dynamo import vllm_events
from benchmarks.peers.dynamo.decision_trial import KINDS, Situation
from benchmarks.peers.dynamo.publisher import NobodyListensError, Publisher
from benchmarks.peers.dynamo.rounds import Found, Program, Sides, by_turns, run
from benchmarks.peers.environment import PEERS, NotInstalledError, install
from benchmarks.processes import ChildFailedError, Processes
from benchmarks.report import Bar, Cell, Circumstances, Report, Spread, Table, argument_parser, conclude
from benchmarks.shipped import build

PACKAGES = ("numpy", "msgspec", "pyzmq")
SYSTEM_PROMPTS = 8
LEAST_GAIN = 2.0
SUBSCRIBED_WITHIN_S = 30.0
KIND_NAMES = {
    "turn": "later turn: one worker has 15,360 tokens of it",
    "system": "system prompt: many workers have 1,024 tokens of it",
    "new": "new: nobody has any of it",
}


def main() -> int:
    arguments = parse_arguments()
    return conclude(
        "decision",
        lambda: measure(arguments),
        results=arguments.results,
        cannot_run=[NotInstalledError, ChildFailedError, NobodyListensError],
    )


def measure(arguments: argparse.Namespace) -> Report:
    """Measure both programs in turn, and return the report."""
    dynamo = PEERS["dynamo"]
    tools = {"Dynamo": ", ".join(dynamo.requirements)}
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools=tools)
    report = Report("decision", "A decision from the token ids", circumstances)
    install(dynamo)
    options = {
        "seed": arguments.seed,
        "workers": arguments.workers,
        "systems": SYSTEM_PROMPTS,
        "blocks": arguments.blocks,
    }
    batches = _batches(Situation(**options))
    with Processes() as processes:
        shipped = None if arguments.sources else build()
        ours, theirs = Program.ours("warmgate_decision", shipped), Program.of(dynamo, "dynamo_select")
        sides = by_turns(
            lambda: run(processes, ours, options),
            lambda: _run_dynamo(processes, theirs, options, batches),
            rounds=arguments.rounds,
        )
    tell(report, sides, f"{arguments.workers} workers, {arguments.blocks:,} blocks")
    return report


def _batches(situation: Situation) -> Mapping[int, Sequence[bytes]]:
    batches: dict[int, list[bytes]] = {}
    for announcement in situation.reported:
        batches.setdefault(announcement.worker, []).append(vllm_events.stored([announcement]))
    return batches


def _run_dynamo(
    processes: Processes, program: Program, options: Mapping[str, int], batches: Mapping[int, Sequence[bytes]]
) -> Found:
    with Publisher(options["workers"]) as publisher:
        ports = ",".join(map(str, publisher.ports))
        return run(
            processes,
            program,
            {**options, "ports": ports},
            meanwhile=lambda: publisher.publish(batches, timeout_s=SUBSCRIBED_WITHIN_S),
        )


def tell(report: Report, sides: Sides, caches: str) -> None:
    """Write the targets and tables of both programs."""
    rows: list[tuple[Cell | Spread, ...]] = []
    gains: list[float] = []
    for kind in KINDS:
        ours, theirs, ratio = sides.spreads(lambda found, kind=kind: found["decision_us"][kind])  # type: ignore[misc]
        packed = Spread.of(found["packed_us"][kind] for found in sides.ours)
        gains.append(1 / ratio.median)
        rows.append((KIND_NAMES[kind], ours, packed, theirs, gains[-1]))
    parts = {name: Spread.of(found["parts_us"][name] for found in sides.ours) for name in sides.ours[0]["parts_us"]}
    report.bars = [
        Bar("decision from a list of ids, times as fast as Dynamo's, in the worst case", min(gains), ">=", LEAST_GAIN),
        Bar("decisions for a worker that has less of the prompt than another", sides.wrong, "==", 0),
    ]
    report.tables = [
        Table(
            f"Microseconds for a prompt of 16,384 tokens, {caches}",
            ("prompt", "ours, from a list of ids", "ours, from packed ids", "Dynamo, from a list of ids", "gain"),
            rows,
        ),
        Table("Parts of ours, microseconds", ("", "all prompts"), list(parts.items())),
    ]
    report.notes = [
        "Each figure is the median of the rounds, a round's figure the median of its decisions. Nothing is booked.",
        "Dynamo's log is off but for errors; by default it writes a line for each decision, which costs it more.",
    ]
    report.figures = {"sides": sides}


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser("decision", __doc__)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=500_000, help="held blocks, over all workers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sources", action="store_true", help="do not build the wheel with the compiled core")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
