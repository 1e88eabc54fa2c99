"""Distribution of load if all prompts begin with the same 20 kB, which one worker alone cannot serve."""

import random
from collections.abc import Callable, Sequence

from benchmarks.chat_bodies import words
from benchmarks.peers.entrants import OURS
from benchmarks.peers.field import Field, Setting, Wanted, new_report, say, set_up_notes, taking_the_field
from benchmarks.peers.open_loop import poisson
from benchmarks.peers.scenarios import timed
from benchmarks.peers.scenarios.prompts import chat
from benchmarks.peers.scenarios.rates import last_p50, last_p99
from benchmarks.peers.scenarios.timed import Reading
from benchmarks.report import Bar, Report, Spread, Table

ROUNDS, SECONDS = 2, 5.0
WORKERS, SLOTS, FIRST_BYTE_MS = 4, 4, 20
CAPACITY_PER_S = SLOTS * 1000 / FIRST_BYTE_MS
"""Requests per second that one worker can serve."""
PER_S = 400
"""Requests per second in the scenario: twice the capacity of one worker, and half the capacity of all."""
SLOW_PER_S = 20
PREFIX_CHARACTERS = 20_000
MOST_SHARE = 0.5
"""Maximum share of the busiest worker, which is the load that two workers can serve."""


def run(setting: Setting) -> Report:
    wanted = setting.or_else(rounds=ROUNDS, seconds=SECONDS)
    report = new_report("hot_prefix", "One hot prefix: who spreads the load that no single worker can carry", wanted)
    with taking_the_field(wanted) as field:
        found = measure(field, wanted)
        missing = field.missing
    tell(report, found)
    report.notes += [
        f"{wanted.rounds} rounds of {wanted.seconds:g} s: {PER_S} requests per second (Poisson), all with the same "
        f"{PREFIX_CHARACTERS:,} characters before a question of their own.",
        f"A worker answers {SLOTS} requests at a time, each after {FIRST_BYTE_MS} ms, so {CAPACITY_PER_S:g} per "
        "second; the others wait in it. It takes as long whether it has seen the prefix or not: what is judged is the "
        "spread.",
        f"Marked with *: slow, and asked {SLOW_PER_S} times a second, where nobody has to spread anything.",
        *set_up_notes(wanted, workers=f"{WORKERS} stub workers in one process"),
        *timed.noise(found),
        *missing,
    ]
    return report


def measure(field: Field, wanted: Wanted) -> list[Reading]:
    """Measure all routers in turn. Raises `ChildFailedError` if Warmgate does not start."""
    pace = ("--first-byte-ms", str(FIRST_BYTE_MS), "--slots", str(SLOTS))
    workers = field.bench.start_stub("--workers", str(WORKERS), *pace).urls["requests"].split(",")
    runners = field.start(workers)
    request = requests(wanted.seed)
    found = []
    for number in range(wanted.rounds):
        for entrant, target in runners:
            per_s = SLOW_PER_S if entrant.is_slow else PER_S
            schedule = poisson(per_s, wanted.seconds, random.Random(wanted.seed + number))
            found.append(timed.observe(field.bench, target, request, schedule, round_number=number, workers=workers))
            say(f"round {number + 1}: {target.name}: busiest {max(found[-1].shares):.0%}")
    return found


def requests(seed: int) -> Callable[[int], bytes]:
    prefix = words(random.Random(seed), PREFIX_CHARACTERS)
    return lambda number: chat(f"Question {number}: what follows?", system=prefix)


def tell(report: Report, found: Sequence[Reading]) -> None:
    """Write the table and the targets for Warmgate."""
    ours = [each for each in found if each.target == OURS]
    if ours:
        busiest = Spread.of(max(each.shares) for each in ours).median
        report.bars.append(Bar("share of the busiest worker, warmgate", busiest, "<=", MOST_SHARE))
        report.bars.append(Bar("failed answers of warmgate", sum(each.failed for each in ours), "==", 0))
    report.tables.append(table("Spread and latency", found, {"busiest worker": lambda each: max(each.shares)}))
    report.figures["readings"] = list(found)


def table(title: str, found: Sequence[Reading], shares: dict[str, Callable[[Reading], float]]) -> Table:
    """Return a table with one line per target: *shares* of the workers, latency, failures."""
    rows = []
    for name in dict.fromkeys(each.target for each in found):
        own = [each for each in found if each.target == name]
        reported = [Spread.of(share(each) for each in own) for share in shares.values()]
        latencies = [timed.spread_ms(own, figure) for figure in (last_p50, last_p99)]
        is_slow = own[0].asked < max(each.asked for each in found) / 2
        rows.append((f"{name} *" if is_slow else name, *reported, *latencies, timed.failures(own)))
    return Table(title, ("", *shares, "p50 ms", "p99 ms", "failed"), rows)
