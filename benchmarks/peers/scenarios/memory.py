"""Memory of each router: when idle, per open stream, and per distinct prompt."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.bench import Target
from benchmarks.peers.entrants import LITELLM, OURS
from benchmarks.peers.field import Field, Setting, Wanted, new_report, say, set_up_notes, taking_the_field
from benchmarks.peers.line import Line, Lines
from benchmarks.peers.scenarios.prompts import Distinct
from benchmarks.processes import Child, ChildFailedError
from benchmarks.report import Bar, Report, Spread, Table

ROUNDS, SECONDS = 1, 10.0
FEW_STREAMS, STREAMS = 20, 200
EVENT_MS = 600
"""Milliseconds between events, so that a stream lasts a minute."""
FIRST_EVENTS = 2
BEGUN_WITHIN_S = 60.0
SETTLE_S, WATCH_S, POLL_S = 1.0, 1.0, 0.1
WARM_UP_REQUESTS = 20
PROMPT_CHARACTERS = 8_000
CONNECTIONS = 32
KIB, MIB = 2**10, 2**20
LESS_THAN_LITELLM = 5.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Memory readings of one newly started target. Resident memory includes all its processes."""

    target: str
    round: int
    idle_bytes: int
    few_streams_bytes: int
    streams_bytes: int
    before_prompts_bytes: int
    """Memory after all streams have ended."""
    after_prompts_bytes: int
    prompts: int
    failed: int

    @property
    def bytes_per_stream(self) -> float:
        """Return the growth from few to many streams, which excludes first-time allocations."""
        return (self.streams_bytes - self.few_streams_bytes) / (STREAMS - FEW_STREAMS)

    @property
    def bytes_per_prompt(self) -> float:
        return (self.after_prompts_bytes - self.before_prompts_bytes) / max(1, self.prompts)


def run(setting: Setting) -> Report:
    wanted = setting.or_else(rounds=ROUNDS, seconds=SECONDS)
    report = new_report("memory", "Memory: idle, per open stream, per prompt", wanted)
    with taking_the_field(wanted) as field:
        found = measure(field, wanted)
        missing = field.missing
    tell(report, found)
    report.notes += [
        f"Resident memory of all processes of a router, started afresh. Idle: after {WARM_UP_REQUESTS} requests. "
        f"Streams: of {PROMPT_CHARACTERS:,} characters, an event each {EVENT_MS} ms, so that they wait most of the "
        f"time; per stream: the slope from {FEW_STREAMS} to {STREAMS}. A reading is the highest of {WATCH_S:g} s.",
        f"Prompts: as many distinct ones of {PROMPT_CHARACTERS:,} characters as it answers in {wanted.seconds:g} s "
        f"over {CONNECTIONS} connections. Whoever answers more has seen more: compare what a prompt costs, and mind "
        "that limits of memory, which some have and some have not, come into play in hours, not in seconds.",
        *set_up_notes(wanted, workers="2 stub workers in one process"),
        *missing,
    ]
    return report


def measure(field: Field, wanted: Wanted) -> list[Reading]:
    """Measure all routers one after the other. Raises `ChildFailedError` if Warmgate does not start."""
    workers = field.bench.start_stub("--workers", "2", "--event-ms", str(EVENT_MS)).urls["requests"].split(",")
    found = []
    for number in range(wanted.rounds):
        for entrant in field.entrants:
            target = field.start_one(entrant, workers)
            if target is None:
                continue
            try:
                found.append(uvloop.run(watch(target, wanted, number)))
            except ChildFailedError as error:
                if entrant.is_ours:
                    raise
                field.missing.append(f"{entrant.name}: {error}; it is not in the tables.")
            target.child.stop()
            latest = found[-1] if found else None
            say(f"{latest.target}: {latest.bytes_per_stream / KIB:.1f} KiB per stream" if latest else "nothing found")
    return found


async def watch(target: Target, wanted: Wanted, number: int) -> Reading:
    """Return all readings of one target.

    Raises:
        ChildFailedError: if the streams do not begin.
    """
    prompts = Distinct(wanted.seed, PROMPT_CHARACTERS)
    plain = Lines(target.urls["requests"])
    for warm_up in range(WARM_UP_REQUESTS):
        await plain.ask(prompts(10**7 + warm_up), due_s=time.monotonic())
    idle = await highest_bytes(target.child)
    async with asyncio.TaskGroup() as tasks:
        streams = _Streams(target, prompts, tasks)
        await streams.open(FEW_STREAMS)
        few = await highest_bytes(target.child)
        await streams.open(STREAMS)
        many = await highest_bytes(target.child)
        streams.close()
    before = await highest_bytes(target.child)
    asked, failed = await ask_on(plain, prompts, seconds=wanted.seconds)
    after = await highest_bytes(target.child)
    plain.close()
    return Reading(target.name, number, idle, few, many, before, after, asked, failed)


class _Streams:
    """Streams that stay open."""

    def __init__(self, target: Target, prompts: Distinct, tasks: asyncio.TaskGroup) -> None:
        self._lines = Lines(target.urls["streams"])
        self._prompts = prompts
        self._tasks = tasks
        self._open: list[Line] = []

    async def open(self, count: int) -> None:
        """Open streams until the given number runs. Raises `ChildFailedError` if they do not begin."""
        while len(self._open) < count:
            number = 10**8 + len(self._open)
            line = await self._lines.connect()
            self._open.append(line)
            request = self._prompts(number, streams=True)
            due_s = time.monotonic()
            self._tasks.create_task(line.ask(request, due_s=due_s, streams=True, timeout_s=10 * BEGUN_WITHIN_S))
        give_up_at = time.monotonic() + BEGUN_WITHIN_S
        while waiting := sum(line.answer.events < FIRST_EVENTS for line in self._open):
            if time.monotonic() > give_up_at:
                self.close()
                raise ChildFailedError(f"{waiting} of {count} streams did not begin")
            await asyncio.sleep(POLL_S)

    def close(self) -> None:
        for line in self._open:
            line.close()


async def highest_bytes(child: Child) -> int:
    """Return the resident memory after it has settled, the highest value within `WATCH_S`."""
    await asyncio.sleep(SETTLE_S)
    until_s = time.monotonic() + WATCH_S
    highest = child.rss_bytes()
    while time.monotonic() < until_s:
        await asyncio.sleep(POLL_S)
        highest = max(highest, child.rss_bytes())
    return highest


async def ask_on(lines: Lines, prompts: Distinct, *, seconds: float) -> tuple[int, int]:
    """Send distinct prompts over `CONNECTIONS`, one after the other. Return the numbers of sent and failed requests."""
    until_s = time.monotonic() + seconds
    numbers = itertools.count()
    answers = []

    async def go_on() -> None:
        while time.monotonic() < until_s:
            answers.append(await lines.ask(prompts(next(numbers)), due_s=time.monotonic()))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(go_on())
    return len(answers), sum(not answer.is_whole for answer in answers)


def tell(report: Report, found: Sequence[Reading]) -> None:
    """Write the table, and the target for streams of LiteLLM."""
    names = list(dict.fromkeys(each.target for each in found))
    of = {name: [each for each in found if each.target == name] for name in names}
    per_stream = {name: Spread.of(each.bytes_per_stream / KIB for each in of[name]) for name in names}
    if OURS in names and LITELLM in names:
        limit = per_stream[LITELLM].median / LESS_THAN_LITELLM
        what = f"KiB per open stream, warmgate; limit: LiteLLM's / {LESS_THAN_LITELLM:g}"
        report.bars.append(Bar(what, per_stream[OURS].median, "<=", limit))
    rows = [
        (
            name,
            Spread.of(each.idle_bytes / MIB for each in of[name]),
            Spread.of(each.streams_bytes / MIB for each in of[name]),
            per_stream[name],
            Spread.of(each.prompts for each in of[name]),
            Spread.of(each.bytes_per_prompt / KIB for each in of[name]),
            Spread.of(each.after_prompts_bytes / MIB for each in of[name]),
            sum(each.failed for each in of[name]),
        )
        for name in names
    ]
    columns = (
        "",
        "idle, MiB",
        f"{STREAMS} streams, MiB",
        "per stream, KiB",
        "prompts seen",
        "per prompt, KiB",
        "after them, MiB",
        "failed",
    )
    report.tables.append(Table("Resident memory", columns, rows))
    report.figures["readings"] = [
        {"reading": each, "bytes_per_stream": each.bytes_per_stream, "bytes_per_prompt": each.bytes_per_prompt}
        for each in found
    ]
