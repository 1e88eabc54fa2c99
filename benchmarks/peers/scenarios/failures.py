"""Failures of one of three workers in four ways: number of failed requests, and duration of the failures."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx
import uvloop

from benchmarks.bench import Target
from benchmarks.peers import open_loop
from benchmarks.peers.entrants import ENTRANTS, OURS, Entrant
from benchmarks.peers.field import Field, Setting, Wanted, new_report, say, set_up_notes, taking_the_field
from benchmarks.peers.line import Answer, Lines
from benchmarks.peers.open_loop import poisson
from benchmarks.peers.scenarios.prompts import Distinct
from benchmarks.processes import Child
from benchmarks.report import Bar, Cell, Report, Table

ROUNDS, SECONDS = 1, 6.0
PER_S, SLOW_PER_S = 30.0, 4.0
STREAMS_SHARE = 0.5
"""Rate of streams, as a share of the rate of requests."""
WARM_UP_REQUESTS = 12
PROMPT_CHARACTERS = 1_000
EVENT_MS = 20
TIMEOUT_S = 5.0
"""Seconds after which a caller gives up."""


@dataclass(frozen=True, slots=True)
class Sick:
    """Worker that fails."""

    child: Child
    url: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Way in which a worker fails."""

    name: str
    strike: Callable[[Sick], None]
    streams: bool = False
    at_share: float = 0.0
    """Time of the fault, as a share of the measured time."""


def _kill(sick: Sick) -> None:
    sick.child.process.kill()


def _stop(sick: Sick) -> None:
    # The kernel goes on to accept connections for it, as for a process that hangs.
    os.kill(sick.child.process.pid, signal.SIGSTOP)


def _break(sick: Sick) -> None:
    httpx.post(f"{sick.url}/break").raise_for_status()


FAULTS = (
    Fault("refuses connections", _kill),
    Fault("hangs", _stop),
    Fault("answers 500", _break),
    Fault("dies in mid-stream", _kill, streams=True, at_share=0.5),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Measurement of one target with one fault."""

    target: str
    fault: str
    round: int
    asked: int
    ends: Counter[str]
    failing_s: float | None
    """Seconds from the fault until the last failed request was due, or None if no request failed."""

    @property
    def failed(self) -> int:
        return self.asked - self.ends["whole"]


def run(setting: Setting) -> Report:
    wanted = setting.or_else(rounds=ROUNDS, seconds=SECONDS)
    report = new_report("failures", "One failing worker of three: who notices", wanted)
    with taking_the_field(wanted) as field:
        found = measure(field, wanted)
        missing = field.missing
    tell(report, found)
    report.notes += [
        f"{PER_S:g} requests per second for {wanted.seconds:g} s, distinct prompts of {PROMPT_CHARACTERS:,} "
        f"characters; half as many streams, of 2 s each. The slow ones are asked {SLOW_PER_S:g} times a second. A "
        f"caller gives up after {TIMEOUT_S:g} s (late), and does not ask again.",
        "Each fault has a router of its own, started while all workers were well. Refuses: killed. Hangs: stopped by "
        "the kernel, so that connections are accepted and nothing is answered. Dies: killed in the middle of the time, "
        "with streams under way in it. What is not in a router's command is as it is by default. Seconds below 0: "
        "only streams that were under way when it died.",
        "Rates are low: this is about answers, not speed. The four run side by side.",
        *set_up_notes(wanted, workers="2 stub workers, and one that fails"),
        *missing,
    ]
    return report


def measure(field: Field, wanted: Wanted) -> list[Reading]:
    """Measure all routers with every fault. Raises `ChildFailedError` if Warmgate does not start."""
    well = field.bench.start_stub("--workers", "2", "--event-ms", str(EVENT_MS)).urls["requests"].split(",")
    found: list[Reading] = []
    for number in range(wanted.rounds):
        for entrant in field.entrants:
            started = _start(field, entrant, well)
            if len(started) < len(FAULTS):
                continue
            found += uvloop.run(_all_faults(entrant, started, wanted, number))
            for _, sick, target in started:
                target.child.stop()
                os.kill(sick.child.process.pid, signal.SIGKILL)
                sick.child.stop()
            say(", ".join(f"{each.fault}: {each.failed} of {each.asked}" for each in found[-len(FAULTS) :]))
    return found


def _start(field: Field, entrant: Entrant, well: Sequence[str]) -> list[tuple[Fault, Sick, Target]]:
    """Yield a router and a failing worker for each fault, or fewer if the router does not start."""
    started = []
    for fault in FAULTS:
        stub = field.bench.start_stub("--event-ms", str(EVENT_MS), name=f"sick-{field.stage.next_number()}")
        sick = Sick(stub.child, stub.urls["requests"])
        # The failing one is in the middle, where neither the first choice nor the last is.
        target = field.start_one(entrant, [well[0], sick.url, well[1]], checked=fault is FAULTS[0])
        if target is None:
            break
        started.append((fault, sick, target))
    return started


async def _all_faults(
    entrant: Entrant, started: Sequence[tuple[Fault, Sick, Target]], wanted: Wanted, number: int
) -> list[Reading]:
    per_s = SLOW_PER_S if entrant.is_slow else PER_S
    through = (
        one_fault(fault, sick, target, per_s=per_s, wanted=wanted, number=number) for fault, sick, target in started
    )
    return await asyncio.gather(*through)


async def one_fault(fault: Fault, sick: Sick, target: Target, *, per_s: float, wanted: Wanted, number: int) -> Reading:
    """Measure *target*, whose worker *sick* fails, with *per_s* requests per second or half as many streams."""
    lines = Lines(target.urls["streams" if fault.streams else "requests"])
    prompts = Distinct(wanted.seed, PROMPT_CHARACTERS)
    for warm_up in range(WARM_UP_REQUESTS):
        await lines.ask(prompts(10**6 + warm_up), due_s=time.monotonic())
    of_them = STREAMS_SHARE if fault.streams else 1.0
    schedule = poisson(per_s * of_them, wanted.seconds, random.Random(wanted.seed + number))

    async def strike() -> float:
        await asyncio.sleep(fault.at_share * wanted.seconds)
        await asyncio.to_thread(fault.strike, sick)
        return time.monotonic()

    if not fault.at_share:
        struck_s = await strike()
        answers = await _drive(lines, prompts, schedule, fault)
    else:
        answers, struck_s = await asyncio.gather(_drive(lines, prompts, schedule, fault), strike())
    lines.close()
    failed_s = [each.due_s - struck_s for each in answers if not each.is_whole]
    return Reading(
        target=target.name,
        fault=fault.name,
        round=number,
        asked=len(answers),
        ends=open_loop.ends(answers),
        failing_s=max(failed_s) if failed_s else None,
    )


async def _drive(lines: Lines, prompts: Distinct, schedule: Sequence[float], fault: Fault) -> list[Answer]:
    return await open_loop.drive(
        lines,
        lambda number: prompts(number, streams=fault.streams),
        schedule,
        streams=fault.streams,
        timeout_s=TIMEOUT_S,
    )


def tell(report: Report, found: Sequence[Reading]) -> None:
    """Report failed requests and the duration of failures. The targets are not to exceed those of the best router."""
    for fault in FAULTS:
        shares = failed_shares(found, fault.name)
        routers = {name: share for name, share in shares.items() if ENTRANTS[name].is_router}
        if OURS in shares and routers:
            best = min(routers, key=lambda name: routers[name])
            what = f"share of failed answers of warmgate, a worker {fault.name}; limit: the best router's, {best}"
            report.bars.append(Bar(what, shares[OURS], "<=", routers[best]))
    names = list(dict.fromkeys(each.target for each in found))
    columns = ("", *(fault.name for fault in FAULTS))
    failed = [(name, *(_failed(found, name, fault) for fault in FAULTS)) for name in names]
    report.tables += [
        Table("Failed answers", columns, failed),
        Table(
            "Seconds from the fault to the last request that failed",
            columns,
            [(name, *(_failing_s(found, name, fault) for fault in FAULTS)) for name in names],
        ),
    ]
    report.figures["readings"] = list(found)


def failed_shares(found: Sequence[Reading], fault: str) -> Mapping[str, float]:
    """Return the shares of failed requests, by target."""
    own: dict[str, list[Reading]] = {}
    for each in found:
        if each.fault == fault:
            own.setdefault(each.target, []).append(each)
    return {name: sum(e.failed for e in of) / max(1, sum(e.asked for e in of)) for name, of in own.items()}


def _failed(found: Sequence[Reading], name: str, fault: Fault) -> Cell:
    own = [each for each in found if each.target == name and each.fault == fault.name]
    ends: Counter[str] = Counter()
    for each in own:
        ends.update(each.ends)
    asked = ends.total()
    del ends["whole"]
    listed = ", ".join(f"{end}: {count}" for end, count in ends.most_common() if count)
    return f"{ends.total()} of {asked}" + (f" ({listed})" if listed else "")


def _failing_s(found: Sequence[Reading], name: str, fault: Fault) -> Cell:
    times = [each.failing_s for each in found if each.target == name and each.fault == fault.name]
    return max((each for each in times if each is not None), default=None)
