"""Instructions per request of the compiled gateway, counted by callgrind for each phase.

The load of the machine does not affect the number of instructions. Instructions are not time: the kernel's work for a
request (receive, send, epoll) is not included, and a cache miss counts like a cache hit.

Periodic work (batches, checks of deadlines) is slowed down as much as the counted process, so that a request costs as
much as under load. Work of an idle gateway is counted separately and subtracted.

Exit status: 0 if the measurement succeeded, 2 if it failed.
"""

import argparse
import asyncio
import contextlib
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from benchmarks.bench import KEYS_AND_LIMITS, RECEIPTS, RECEIPTS_AND_SHAPES, WITHOUT_RECORDS
from benchmarks.chat_bodies import PATH, bodies
from benchmarks.processes import Child, ChildFailedError, Processes, settings_before, start_stub_worker
from benchmarks.report import Circumstances, Report, Table, argument_parser, conclude
from benchmarks.shipped import Shipped, build

SLOWER = 50.0
"""Approximate factor by which callgrind slows the gateway down."""
CONNECTIONS = 32
WARM_UP_REQUESTS = 1000
"""Number of first requests that are not counted, in which caches fill and byte code adapts."""
START_S = 180.0
PACKAGES = ("uvloop", "httptools", "numpy", "msgspec", "mypy")

SLOWED = f"""
import sys
from gateway.proxy import completed_requests
from gateway.cli.main import main
from gateway.tenancy.quota import checkpoint_writer, checkpoints
completed_requests.SETTLE_S *= {SLOWER}
checkpoint_writer.BATCH_S *= {SLOWER}
checkpoints.RATE_AHEAD_S *= {SLOWER}
sys.exit(main(["serve", *sys.argv[1:]]))
"""
"""Program that runs the gateway with periodic work slowed down as much as requests."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Phase of a request: calls of the functions that match *enter*, including all functions that those call."""

    name: str
    enter: str
    """Pattern for the whole name of a C function. mypyc forms this name from the module and the function."""
    within: str | None = None
    """Phase that contains this phase, and from which this phase is subtracted."""


PHASES = (
    Phase("read HTTP, of callers and workers", r"__pyx_pw_9httptools_6parser_6parser_10HttpParser_\d+feed_data"),
    Phase("write HTTP, to callers and workers", r"__pyx_pw_6uvloop_4loop_8UVStream_\d+write(lines)?"),
    Phase("parse: JSON", r"json_decode\b.*"),
    Phase("authenticate", r"CPyDef_admission___(Admission___(known|caller)|caller_Admission_gen.*helper__)"),
    Phase("hash the prompt", r"CPyDef_prefix___Hasher___prefix"),
    Phase("admit: limits", r"CPyDef_admission___(Admission___reserve(_at_once)?|reserve_Admission_gen.*helper__)"),
    Phase("dispatch: choose a worker", r"CPyDef_(late_binding___LateBinding|dispatcher___Immediate)___poll"),
    Phase("release: learn from the answer", r"CPyDef_(fleet___Fleet|bookings___Bookings)___release"),
    Phase("receipts", r"CPyDef_(ring___ReceiptRing___observe|decision___Decision)"),
    Phase("cache activity", r"CPyDef_cache_activity___CacheActivity___observe"),
    Phase("request shapes", r"CPyDef_shapes___recorder___ShapeRecorder___observe"),
    Phase("settle: limits, price", r"CPyDef_admission___Admission___settle"),
    Phase("ledger: the file, by another thread", r"CPyDef_checkpoint_writer___(_write|act__write_batch).*"),
)
"""Phases, none of which calls another. The HTTP reader calls Python for every header."""
OTHER = "the rest: what Python runs of the proxy, its log and metrics, and the loop"


@dataclass(slots=True)
class Profile:
    """Counts of callgrind, in instructions."""

    own: Counter[str] = field(default_factory=Counter)
    """Instructions of each function, without its callees."""
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Instructions by caller and callee, including all functions called from there."""

    @property
    def total(self) -> int:
        return self.own.total()

    @classmethod
    def read(cls, lines: Iterable[str]) -> "Profile":
        """Read callgrind's compressed format with one event: https://valgrind.org/docs/manual/cl-format.html."""
        profile = cls()
        names: dict[str, str] = {}
        caller = callee = ""
        is_call = False
        for line in lines:
            if named := _NAME.match(line):
                name = names.setdefault(named["number"], _without_depth(named["name"] or ""))
                if named["what"] == "fn":
                    caller = name
                else:
                    callee = name
            elif line.startswith("calls="):
                is_call = True
            elif cost := _COST.match(line):
                instructions = int(cost[1])
                if is_call:
                    profile.calls[caller, callee] += instructions
                else:
                    profile.own[caller] += instructions
                is_call = False
        return profile


_NAME = re.compile(r"(?P<what>c?fn)=\((?P<number>\d+)\)(?: (?P<name>.*))?")
_COST = re.compile(r"[+\-*\d]\S* (\d+)")


def _without_depth(name: str) -> str:
    """Return the name of a function without callgrind's recursion suffix, as in ``f'2``."""
    return name.partition("'")[0]


def by_phase(profile: Profile, phases: Sequence[Phase] = PHASES) -> dict[str, float]:
    """Return the instructions of every phase without phases inside it, and all other instructions as `OTHER`."""
    phase_of = {
        name: phase.name
        for name in profile.own.keys() | {callee for _, callee in profile.calls}
        for phase in phases
        if re.fullmatch(phase.enter, name)
    }
    entered = dict.fromkeys((phase.name for phase in phases), 0.0)
    for (caller, callee), instructions in profile.calls.items():
        entering = phase_of.get(callee)
        if entering is not None and phase_of.get(caller) != entering:
            entered[entering] += instructions
    found = dict(entered)
    for phase in phases:
        if phase.within is not None:
            found[phase.within] -= entered[phase.name]
    return {**found, OTHER: profile.total - sum(found.values())}


class Counted:
    """Gateway under callgrind, which counts instructions on request."""

    def __init__(self, processes: Processes, shipped: Shipped, settings: Mapping[str, Any], *, name: str) -> None:
        """Start the gateway, and wait until it serves requests. Raises `ChildFailedError` if it does not start."""
        self._counts = processes.directory / f"{name}.callgrind"
        config = processes.directory / f"{name}.yaml"
        config.write_text(yaml.safe_dump(dict(settings)))
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self._counts}"]
        command = [*valgrind, sys.executable, "-P", "-c", SLOWED, "--config", str(config)]
        environment = {**shipped.environment, "PYTHONHASHSEED": "1"}
        self._child: Child = processes.start(name, command, environment=environment)
        self.url = self._child.wait_for_ready_line(timeout_s=START_S)
        self._dumps = 0

    def count(self) -> None:
        """Reset the counts and start counting."""
        self._control("--instr=on")
        self._control("--zero")

    def counted(self) -> Profile:
        """Return the counts since `count`, and stop counting."""
        self._control("--dump")
        self._control("--instr=off")
        self._dumps += 1
        with Path(f"{self._counts}.{self._dumps}").open() as lines:
            return Profile.read(lines)

    def _control(self, option: str) -> None:
        command = ["callgrind_control", option, str(self._child.process.pid)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S)
        if done.returncode != 0 or "ERROR" in done.stdout + done.stderr:
            raise ChildFailedError(f"callgrind_control {option}: {(done.stdout + done.stderr)[-500:]}")


async def ask(url: str, prompts: Sequence[str], count: int) -> None:
    """Send *count* requests, `CONNECTIONS` at a time, and read their answers.

    Raises:
        ChildFailedError: if an answer does not have status 200.
    """
    numbers = iter(range(count))
    address = urlsplit(url)

    async def client() -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        with contextlib.closing(writer):
            for number in numbers:
                body = prompts[number % len(prompts)].encode()
                writer.write(HEAD % len(body) + body)
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200 "):
                    raise ChildFailedError(f"the gateway answered {head[:40]!r}")
                await reader.readexactly(int(LENGTH.findall(head)[0]))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(client())


HEAD = (
    b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer benchmark\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
)
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")


@dataclass(frozen=True, slots=True)
class Count:
    """Instruction counts of one kind of gateway."""

    gateway: str
    requests: int
    instructions: float
    """Number of instructions per request."""
    phases: Mapping[str, float]
    functions: Sequence[tuple[str, float]]
    """Functions with the most instructions, without their callees."""


def measure(gateway: Counted, name: str, prompts: Sequence[str], *, requests: int) -> Count:
    """Count the instructions of *requests* requests, and of an idle gateway in the same time."""
    asyncio.run(ask(gateway.url, prompts, WARM_UP_REQUESTS))
    time.sleep(SETTLED_S)  # else what these left to be logged and booked would be counted
    gateway.count()
    began = time.monotonic()
    asyncio.run(ask(gateway.url, prompts, requests))
    time.sleep(SETTLED_S)
    took_s = time.monotonic() - began
    busy = gateway.counted()
    gateway.count()
    time.sleep(took_s)
    idle = gateway.counted()
    return count_of(name, busy, idle, requests=requests)


SETTLED_S = 0.1 * SLOWER
"""Time in seconds until deferred work of a request is done, which is twice its time limit."""


def count_of(name: str, busy: Profile, idle: Profile, *, requests: int) -> Count:
    """Return the cost of one request from the counts of *busy* and *idle* gateways."""
    spent, idled, share = by_phase(busy), by_phase(idle), share_within(busy, idle)
    own = {function: instructions - share * idle.own[function] for function, instructions in busy.own.items()}
    return Count(
        name,
        requests,
        (busy.total - share * idle.total) / requests,
        {phase: (spent[phase] - share * idled[phase]) / requests for phase in spent},
        [(function, own[function] / requests) for function in sorted(own, key=own.__getitem__, reverse=True)[:SHOWN]],
    )


def share_within(busy: Profile, idle: Profile) -> float:
    """Return the share of the work of *idle* that *busy* did as well, at most 1.

    A loop that has requests idles less, and on a machine with other work far less. What only idling does, such as looks
    at the file of keys, reports how much: the functions that *busy* has least of.
    """
    least = LEAST_SHARE * idle.total
    shares = sorted(busy.own[function] / own for function, own in idle.own.items() if own >= least)
    return min(1.0, shares[len(shares) // 40]) if shares else 1.0  # but for a few that idling happens to do


LEAST_SHARE = 0.002
"""Minimum share of a function in all idle work for which the function is considered."""
SHOWN = 25
"""Number of functions in the table."""


def fill(report: Report, counts: Sequence[Count]) -> None:
    """Write a table with a column for every gateway and a row for every phase."""
    names = [count.gateway for count in counts]
    rows = [
        (phase, *(_thousands(count.phases[phase], of=count.instructions) for count in counts))
        for phase in counts[-1].phases
    ]
    rows.append(("**all**", *(_thousands(count.instructions, of=count.instructions) for count in counts)))
    report.tables.append(Table("Thousands of instructions per request", ("phase", *names), rows))
    last = counts[-1]
    functions = [(f"`{name}`", _thousands(spent, of=last.instructions)) for name, spent in last.functions]
    title = f"Functions that take most by themselves, {last.gateway}"
    report.tables.append(Table(title, ("", "per request"), functions))
    report.notes += [
        "Instructions of the process in user space, by callgrind: no time, and nothing of what the kernel does.",
        "What was tried to make them fewer stands in [benchmarks/README.md](../README.md#profile).",
    ]
    report.figures["counts"] = list(counts)


def _thousands(instructions: float, *, of: float) -> str:
    return f"{instructions / 1000:.1f} ({instructions / of:.0%})"


def run(arguments: argparse.Namespace) -> Report:
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools={"valgrind": _version()})
    report = Report("profile", "Instructions of one request", circumstances)
    prompts = bodies("requests", random.Random(arguments.seed))
    counts = []
    with Processes() as processes:
        shipped = Shipped(arguments.installed) if arguments.installed else build()
        _, worker = start_stub_worker(processes)
        for number, (name, settings) in enumerate(KINDS.items()):
            if arguments.only and name not in arguments.only:
                continue
            groups: dict[str, Any] = {**settings, **UNHURRIED}
            if "teams" in settings:
                groups["store"] = {"url": f"sqlite:///{processes.directory / 'keys.db'}"}
            gateway = Counted(processes, shipped, settings_before(worker, **groups), name=f"gateway-{number}")
            counts.append(measure(gateway, name, prompts, requests=arguments.requests))
    fill(report, counts)
    return report


KINDS: Mapping[str, Mapping[str, Any]] = {
    "no keys": {},
    "an admin key": WITHOUT_RECORDS,
    "receipts": RECEIPTS,
    "receipts and request shapes": RECEIPTS_AND_SHAPES,
    "a key and five limits": KEYS_AND_LIMITS,
}
UNHURRIED = {"health": {"interval_s": 3000, "timeout_s": 300, "metrics_interval_s": 3000}}
"""Settings that disable periodic work besides requests."""


def _version() -> str:
    try:
        done = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise ChildFailedError("valgrind is not installed (Debian: apt-get install valgrind)") from error
    return done.stdout.strip().removeprefix("valgrind-")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("profile", __doc__)
    parser.add_argument("--requests", type=int, default=600, help="that are counted")
    parser.add_argument("--installed", type=Path, help="folder of a wheel that is unpacked, instead of building one")
    parser.add_argument("--only", nargs="*", choices=list(KINDS), help="gateways to count, instead of all")
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    return conclude("profile", lambda: run(arguments), results=arguments.results, cannot_run=[ChildFailedError])


if __name__ == "__main__":
    sys.exit(main())
