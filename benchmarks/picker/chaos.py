"""`python -m benchmarks.picker.chaos`: which requests fail while workers, pickers and Envoys fail or are drained?

Clients stream through two Envoys, which ask two pickers. One fault follows another: workers and pickers are killed,
and workers, pickers and Envoys are drained. `benchmarks.picker.contract` has the failures that a caller may see. Each
answer is compared with the only right one.

Exit status: 0 if all failures are explained by the contract, 1 if not, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

import uvloop

from benchmarks.chaos_clients import PATIENCE_S, PAUSE_S, Connection, Question
from benchmarks.picker.chaos_rig import Picker, Programs, drain
from benchmarks.picker.contract import KINDS, Fault, Kind, Outcome, cause_of
from benchmarks.picker.rig import envoy_version
from benchmarks.processes import ChildFailedError, Processes
from benchmarks.report import Bar, Cell, Circumstances, Report, Spread, Table, argument_parser, conclude
from benchmarks.shipped import build
from tests.picker import environment

PACKAGES = ("grpcio", "uvloop", "httpx")
CALM_S = 5.0
"""Seconds without faults at the start and at the end of a run."""
DOWN_S = (0.5, 3.0)
"""Time between killing a program and starting it again."""


class Client:
    """Client that sends one question after another, each to an Envoy that takes new connections."""

    def __init__(self, number: int, doors: Callable[[], Sequence[str]], *, tokens: int, began: float) -> None:
        self._number = number
        self._doors = doors
        self._tokens = tokens
        self._began = began
        self._rng = random.Random(number)
        self._connection = Connection()
        self._door = ""
        self.outcomes: list[Outcome] = []

    async def run(self, until: float) -> None:
        """Send requests until *until*, on the clock of the loop."""
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            outcome = await self._ask()
            self.outcomes.append(outcome)
            if outcome.is_failure:
                await asyncio.sleep(PAUSE_S)

    async def _ask(self) -> Outcome:
        loop = asyncio.get_running_loop()
        name = f"{self._number}.{len(self.outcomes)}"
        question = Question.of(name, tokens=self._tokens, is_chat=True)
        began = loop.time() - self._began
        try:
            await self._connect()
            received = await self._connection.ask(question.request(self._door, f"chaos-{name}"))
        except OSError:
            result = "no connection"
        else:
            result = received.judge(question).kind
        ended = loop.time() - self._began
        return Outcome(began, ended, "timeout" if ended - began >= PATIENCE_S else result)

    async def _connect(self) -> None:
        """Connect to an Envoy, unless the connection is open and its Envoy takes new connections."""
        doors = self._doors()
        if self._door in doors and self._connection.is_open:
            return
        self._door = self._rng.choice(doors)
        host, _, port = self._door.rpartition(":")
        _, self._connection = await asyncio.get_running_loop().create_connection(Connection, host, int(port))


class Mischief:
    """Faults, one after another. Each is undone before the next one begins."""

    def __init__(self, programs: Programs, rng: random.Random, *, began: float) -> None:
        self._programs = programs
        self._rng = rng
        self._began = began
        self.faults: list[Fault] = []

    async def run(self, until: float, *, every_s: float) -> None:
        """Cause a fault every *every_s* until *until*, with all kinds in random order again and again."""
        loop = asyncio.get_running_loop()
        kinds: list[Kind] = []
        while loop.time() + CALM_S < until:
            kinds = kinds or self._rng.sample(KINDS, len(KINDS))
            began = loop.time()
            await self._cause(kinds.pop())
            await asyncio.sleep(max(0.0, began + every_s - loop.time()))

    async def _cause(self, kind: Kind) -> None:
        match kind:
            case "worker killed" | "worker drained":
                number = self._rng.randrange(len(self._programs.workers))
            case "picker killed" | "picker drained":
                number = self._rng.randrange(len(self._programs.pickers))
            case "Envoy drained":
                number = self._rng.randrange(len(self._programs.envoys))
        self.faults.append(Fault(kind, asyncio.get_running_loop().time() - self._began, str(number)))
        print(f"{self.faults[-1].at:.0f} s: {kind}", file=sys.stderr, flush=True)
        await asyncio.to_thread(self._do, kind, number, self._rng.uniform(*DOWN_S))

    def _do(self, kind: Kind, number: int, down_s: float) -> None:
        programs = self._programs
        match kind:
            case "worker killed":
                worker = programs.workers[number]
                worker.kill()
                time.sleep(down_s)
                worker.restart()
                worker.wait_ready()
            case "worker drained":
                self._drain_worker(programs.pickers, programs.workers[number].url.removeprefix("http://"), down_s)
            case "picker killed":
                programs.pickers[number].kill()
                time.sleep(down_s)
                programs.pickers[number].restart()
            case "picker drained":
                programs.pickers[number].stop()
                programs.pickers[number].restart()
            case "Envoy drained":
                drain(*programs.envoys[number].replace())

    @staticmethod
    def _drain_worker(pickers: Sequence[Picker], endpoint: str, down_s: float) -> None:
        for picker in pickers:
            picker.drain_worker(endpoint, is_drained=True)
        time.sleep(down_s)
        for picker in pickers:
            picker.drain_worker(endpoint, is_drained=False)


async def play(programs: Programs, options: argparse.Namespace) -> tuple[list[Outcome], list[Fault]]:
    """Run clients and faults. Return the requests and the faults."""
    began = asyncio.get_running_loop().time()
    until = began + options.seconds
    clients = [
        Client(number, lambda: programs.doors, tokens=options.tokens, began=began) for number in range(options.clients)
    ]
    mischief = Mischief(programs, random.Random(options.seed), began=began)
    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(client.run(until))
        await asyncio.sleep(CALM_S)
        await mischief.run(until, every_s=options.every)
    return [outcome for client in clients for outcome in client.outcomes], mischief.faults


def run(options: argparse.Namespace) -> Report:
    """Start all programs, run clients and faults, and return the report."""
    try:
        environment.install()
    except subprocess.CalledProcessError as error:
        raise ChildFailedError(f"Envoy could not be installed: {error}") from error
    shipped = None if options.sources else build()
    with Processes() as processes:
        tools = {"Envoy": envoy_version(processes)}
        circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES, tools=tools)
        outcomes, faults = uvloop.run(play(Programs(processes, shipped), options))
    report = Report("picker_chaos", "Failures behind Envoy and the picker while programs fail", circumstances)
    report.notes.append(
        f"{options.clients} clients, each with one stream of {options.tokens} tokens at a time, for "
        f"{options.seconds:g} s. Two Envoys ask two pickers; four simulated workers. A fault about every "
        f"{options.every:g} s."
    )
    fill(report, outcomes, faults)
    return report


def fill(report: Report, outcomes: Sequence[Outcome], faults: Sequence[Fault]) -> None:
    """Write targets and tables into *report*."""
    failures = [outcome for outcome in outcomes if outcome.is_failure]
    causes = Counter((cause_of(outcome, faults), outcome.result) for outcome in failures)
    unexplained = sum(count for (cause, _), count in causes.items() if cause is None)
    times = Counter(fault.kind for fault in faults)
    report.bars += [
        Bar("failures that the contract does not allow", unexplained, "==", 0),
        Bar("wrong answers", sum(outcome.result.startswith("wrong") for outcome in failures), "==", 0),
        Bar("kinds of faults that were caused", len(times), "==", len(KINDS)),
    ]
    rows: list[Sequence[Cell | Spread]] = []
    for kind in KINDS:
        found = {result: count for (cause, result), count in causes.items() if cause == kind}
        said = ", ".join(f"{count} {result}" for result, count in sorted(found.items())) or "none"
        rows.append((kind, times[kind], sum(found.values()), said))
    found = {result: count for (cause, result), count in causes.items() if cause is None}
    rows.append(
        ("no fault explains it", None, unexplained, ", ".join(f"{n} {result}" for result, n in found.items()) or "none")
    )
    report.tables.append(
        Table("Failed requests by the fault that explains them", ("", "faults", "failed", "how"), rows)
    )
    right = [outcome.ended - outcome.began for outcome in outcomes if not outcome.is_failure]
    report.notes.append(
        f"{len(outcomes):,} requests, {len(failures)} failed ({len(failures) / len(outcomes):.2%}). Requests that "
        f"succeeded took {statistics.median(right):.2f} s (median)."
    )
    report.figures |= {"faults": list(faults), "failures": failures}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("picker.chaos", __doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=8.0, help="seconds from one fault to the next")
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=60, help="of each answer")
    parser.add_argument("--sources", action="store_true", help="the pickers from the checkout, with nothing compiled")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse_arguments()
    return conclude("picker.chaos", lambda: run(options), results=options.results, cannot_run=[ChildFailedError])


if __name__ == "__main__":
    sys.exit(main())
