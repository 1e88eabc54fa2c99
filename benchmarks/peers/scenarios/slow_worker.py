"""Effects of one worker that is ten times slower than two others: its share of requests, and latency."""

import random
from collections.abc import Sequence

from benchmarks.peers.entrants import OURS
from benchmarks.peers.field import Field, Setting, Wanted, new_report, say, set_up_notes, taking_the_field
from benchmarks.peers.open_loop import poisson
from benchmarks.peers.scenarios import hot_prefix, timed
from benchmarks.peers.scenarios.prompts import Distinct
from benchmarks.peers.scenarios.timed import Reading
from benchmarks.report import Bar, Report, Spread

ROUNDS, SECONDS = 2, 5.0
SLOTS, FIRST_BYTE_MS, SLOWER = 8, 20, 10
PER_S = 200
SLOW_PER_S = 20
PROMPT_CHARACTERS = 1_000
MOST_SHARE = 1 / 3
"""Maximum share of requests for the slow worker: an equal share among three."""


def run(setting: Setting) -> Report:
    wanted = setting.or_else(rounds=ROUNDS, seconds=SECONDS)
    report = new_report("slow_worker", "One slow worker of three: who keeps requests away from it", wanted)
    with taking_the_field(wanted) as field:
        found = measure(field, wanted)
        missing = field.missing
    tell(report, found)
    report.notes += [
        f"{wanted.rounds} rounds of {wanted.seconds:g} s: {PER_S} requests per second (Poisson) of "
        f"{PROMPT_CHARACTERS:,} characters that have nothing in common, so that no cache pulls anywhere.",
        f"A worker answers {SLOTS} requests at a time, each after {FIRST_BYTE_MS} ms, the slow one after "
        f"{SLOWER * FIRST_BYTE_MS}: it carries {SLOTS * 1000 / FIRST_BYTE_MS / SLOWER:g} per second, less than its "
        "turn would be.",
        f"Marked with *: slow itself, and asked {SLOW_PER_S} times a second.",
        *set_up_notes(wanted, workers="3 stub workers, the slow one in a process of its own"),
        *timed.noise(found),
        *missing,
    ]
    return report


def measure(field: Field, wanted: Wanted) -> list[Reading]:
    """Measure all routers in turn, with a slow last worker. Raises `ChildFailedError` if Warmgate does not start."""
    pace = ("--slots", str(SLOTS), "--first-byte-ms")
    fast = field.bench.start_stub("--workers", "2", *pace, str(FIRST_BYTE_MS))
    slow = field.bench.start_stub(*pace, str(SLOWER * FIRST_BYTE_MS), name="slow-stub")
    workers = [*fast.urls["requests"].split(","), slow.urls["requests"]]
    runners = field.start(workers)
    request = Distinct(wanted.seed, PROMPT_CHARACTERS)
    found = []
    for number in range(wanted.rounds):
        for entrant, target in runners:
            per_s = SLOW_PER_S if entrant.is_slow else PER_S
            schedule = poisson(per_s, wanted.seconds, random.Random(wanted.seed + number))
            found.append(timed.observe(field.bench, target, request, schedule, round_number=number, workers=workers))
            say(f"round {number + 1}: {target.name}: slow worker {found[-1].shares[-1]:.0%}")
    return found


def tell(report: Report, found: Sequence[Reading]) -> None:
    """Write the table and the targets for Warmgate."""
    ours = [each for each in found if each.target == OURS]
    if ours:
        share = Spread.of(each.shares[-1] for each in ours).median
        report.bars.append(Bar("share of the slow worker, warmgate", share, "<", MOST_SHARE))
        report.bars.append(Bar("failed answers of warmgate", sum(each.failed for each in ours), "==", 0))
    shares = {"slow worker": lambda each: each.shares[-1], "busiest worker": lambda each: max(each.shares)}
    report.tables.append(hot_prefix.table("Share of the slow worker, and latency", found, shares))
    report.figures["readings"] = list(found)
