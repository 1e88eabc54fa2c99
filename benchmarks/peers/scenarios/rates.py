"""Latency that each router adds at rates below its capacity, in an open loop, compared with the worker alone."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bench import Target
from benchmarks.chat_bodies import LOADS, Load, bodies
from benchmarks.peers.entrants import ENTRANTS, NGINX, OURS, Entrant
from benchmarks.peers.field import Field, Setting, Wanted, new_report, say, set_up_notes, taking_the_field
from benchmarks.peers.line import wire
from benchmarks.peers.open_loop import poisson
from benchmarks.peers.scenarios import timed
from benchmarks.peers.scenarios.closed_loop import STUB, WORKERS
from benchmarks.peers.scenarios.timed import Reading
from benchmarks.report import Bar, Report, Spread, Table

ROUNDS, SECONDS = 3, 2.0
WARM_UP_S = 1.0
MOST_SLOW_PER_S = 20
JUDGED_TURNS = 4
"""Number of turns per round at the rates with targets. The p99 of one turn of some seconds depends on only a dozen
requests.
"""
EVENT_MS = 10
"""Milliseconds between the events of a stream, which lasts one second."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Average number of requests or streams per second, which arrive independently of each other."""

    per_s: float
    streams: bool = False
    turns: int = 1
    """Number of measurements in a round."""

    @property
    def title(self) -> str:
        return f"{self.per_s:g} {'streams' if self.streams else 'requests'} per second"


SLOW = Rate(MOST_SLOW_PER_S)
JUDGED = tuple(Rate(per_s, turns=JUDGED_TURNS) for per_s in (100, 500, 1000))
RATES = (SLOW, *JUDGED, Rate(50, streams=True))
Found = Mapping[Rate, Sequence[Reading]]


def run(setting: Setting) -> Report:
    wanted = setting.or_else(rounds=ROUNDS, seconds=SECONDS)
    report = new_report("rates", "Added latency at fixed rates", wanted)
    with taking_the_field(wanted) as field:
        found = measure(field, wanted)
        missing = field.missing
    tell(report, found)
    report.notes += [
        f"{wanted.rounds} rounds of {wanted.seconds:g} s, {JUDGED_TURNS} times as many at the rates with bars. "
        "Requests of 1.2 kB at random times that are the same for all (Poisson), and others in each round; a latency "
        "counts from when a request was due, so that a stall is in the figures of all that were due meanwhile. Added: "
        "minus that of the worker without a proxy, same percentile, same round.",
        f"A stream has an event each {EVENT_MS} ms. First byte: of the body.",
        f"The slow ones are asked {MOST_SLOW_PER_S} times a second and no more.",
        *set_up_notes(wanted, workers=f"{WORKERS} stub workers in one process"),
        *timed.noise([reading for readings in found.values() for reading in readings]),
        *missing,
    ]
    return report


def measure(field: Field, wanted: Wanted) -> Found:
    """Measure all routers at every rate that applies to them. Raises `ChildFailedError` if Warmgate does not start."""
    stub = field.bench.start_stub("--workers", str(WORKERS), "--event-ms", str(EVENT_MS))
    workers = stub.urls["requests"].split(",")
    direct = Target(STUB, stub.child, dict.fromkeys(LOADS, workers[0]))
    runners: list[tuple[Entrant | None, Target]] = [(None, direct), *field.start(workers)]
    found: dict[Rate, list[Reading]] = {rate: [] for rate in RATES}

    def take_turns(rate: Rate, seconds: float, number: int) -> list[Reading]:
        """Measure all routers once, at the same times. Turn -1 is the warm-up."""
        schedule = poisson(rate.per_s, seconds, random.Random(f"{wanted.seed} {number}"))
        request = requests(rate, wanted.seed)
        readings = []
        for entrant, target in runners:
            if not takes_part(entrant, rate) or not schedule:
                continue
            reading = timed.observe(
                field.bench,
                target,
                request,
                schedule,
                round_number=number,
                streams=rate.streams,
                is_proxy=entrant is not None,
            )
            readings.append(reading)
            shown = f"p99 {reading.last.p99_ms:.3g} ms" if reading.last else "nothing came whole"
            say(f"{f'turn {number + 1}' if number >= 0 else 'warm-up'}, {rate.title}: {target.name}: {shown}")
        return readings

    for rate in RATES:
        take_turns(rate, WARM_UP_S, -1)
    for number in range(wanted.rounds):
        for rate in RATES:
            for turn in range(rate.turns):
                found[rate] += take_turns(rate, wanted.seconds, number * rate.turns + turn)
    return found


def takes_part(entrant: Entrant | None, rate: Rate) -> bool:
    """Return whether a router takes part at a rate. Slow routers take part only at the lowest rate."""
    if rate == SLOW:
        return entrant is None or entrant.is_slow or entrant.name in {NGINX, OURS}
    return entrant is None or not entrant.is_slow


def requests(rate: Rate, seed: int) -> Callable[[int], bytes]:
    """Return request number n as HTTP bytes."""
    load: Load = "streams" if rate.streams else "requests"
    wires = [wire(body.encode()) for body in bodies(load, random.Random(seed))]
    return lambda number: wires[number % len(wires)]


def added(readings: Sequence[Reading], name: str, figure: Callable[[Reading], float | None]) -> Spread | None:
    """Return *figure* of *name* minus that of the worker alone, round by round, or None without a value."""
    direct = {each.round: figure(each) for each in readings if each.target == STUB}
    values = []
    for each in readings:
        value, base = figure(each), direct.get(each.round)
        if each.target == name and value is not None and base is not None:
            values.append(value - base)
    return Spread.of(values) if values else None


def first_p50(reading: Reading) -> float | None:
    return reading.first.p50_ms if reading.first else None


def first_p99(reading: Reading) -> float | None:
    return reading.first.p99_ms if reading.first else None


def last_p50(reading: Reading) -> float | None:
    return reading.last.p50_ms if reading.last else None


def last_p99(reading: Reading) -> float | None:
    return reading.last.p99_ms if reading.last else None


def tell(report: Report, found: Found) -> None:
    """Write a table for each rate, and the targets for the added p50 and p99 at the rates with targets."""
    for rate in JUDGED:
        for name, figure in (("p50", last_p50), ("p99", last_p99)):
            report.bars += bars_against_best(found[rate], f"{name} added at {rate.title}, ms", figure)
    failed = sum(each.failed for readings in found.values() for each in readings if each.target == OURS)
    report.bars.append(Bar("failed answers of warmgate", failed, "==", 0))
    report.tables += [table(rate, readings) for rate, readings in found.items() if readings]
    report.figures["readings"] = {rate.title: list(readings) for rate, readings in found.items()}


def bars_against_best(readings: Sequence[Reading], what: str, figure: Callable[[Reading], float | None]) -> list[Bar]:
    """Return the target that ours adds no more than the best other router, or [] if one of the two is missing."""
    routers = [name for name, entrant in ENTRANTS.items() if entrant.is_router]
    others = {name: spread.median for name in routers if (spread := added(readings, name, figure)) is not None}
    ours = added(readings, OURS, figure)
    if not others or ours is None:
        return []
    best = min(others, key=lambda name: others[name])
    return [Bar(f"{what}; limit: the best router's, {best}", ours.median, "<=", others[best])]


def table(rate: Rate, readings: Sequence[Reading]) -> Table:
    """Return a table with one line per target: added latency to the first and last byte, and processor use."""
    rows = []
    for name in dict.fromkeys(each.target for each in readings):
        own = [each for each in readings if each.target == name]
        is_stub = name == STUB
        figures = (first_p50, first_p99, last_p50, last_p99)
        spreads = [timed.spread_ms(own, each) if is_stub else added(readings, name, each) for each in figures]
        cpu = Spread.of(each.target_cpu for each in own)
        rows.append((f"{name} (not added: all)" if is_stub else name, *spreads, cpu, timed.failures(own)))
    columns = ("", "first byte p50", "first byte p99", "whole p50", "whole p99", "share of a core", "failed")
    return Table(f"{rate.title}: milliseconds added, median (lowest – highest) of the rounds", columns, rows)
