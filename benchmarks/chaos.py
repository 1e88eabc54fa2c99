"""Check whether clients notice failing workers: clients stream while workers fail one after the other.

Simulated workers, clients and the gateway are separate processes. The gateway has default settings except
`continuation: tokens`. The first phase has no faults, for comparison. In the second phase, random workers get these
faults:

    kill     SIGKILL; the worker begins again at the same address
    stop     SIGSTOP for 3 s, then SIGCONT
    reset    all of its connections end with a TCP reset
    drain    by the gateway's own route; after some seconds it is taken back

The last two healthy workers never get faults. With `--all-down`, all workers are sometimes killed at once, in some
cases for longer than requests wait. Only after that wait can a request get status 503, or a stream end with an error
event.

Every answer is compared completely with the expected answer.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import random
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec

from benchmarks.chaos_clients import Record
from benchmarks.chaos_faults import (
    DRAINED_S,
    HAND_OVER_AFTER_S,
    SINGLE,
    STOP_S,
    GatewayUnderTest,
    Inflicted,
    Mischief,
    SimulatedWorker,
)
from benchmarks.processes import (
    Child,
    ChildFailedError,
    Processes,
    add_gateway_option,
    free_port,
    start_gateway,
)
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude
from gateway.settings.failures import RetrySettings

PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "msgspec", "numpy")
ADMIN_KEY = "admin-key-of-the-benchmark"
LOOK_S = 0.05
LINGER_S = 180.0
"""Maximum time to wait until the clients have ended."""
WAIT_S: float = RetrySettings().wait_s
EARLY_S = 0.05
"""Tolerance for the wait, which clients see beginning a little later than the gateway."""
TOTALS = ("warmgate_streams_continued_total", "warmgate_retries_total")
WORST = 20
"""Number of failures that the report shows individually."""


def settings(workers: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the gateway: the defaults, except those under test."""
    return {
        "server": {"host": "127.0.0.1", "port": free_port()},
        "admin": {"keys": [{"role": "operator", "secret": ADMIN_KEY}]},
        "models": [{"name": "tiny", "continuation": "tokens", "workers": [{"url": url} for url in workers]}],
    }


@dataclass(frozen=True, slots=True)
class Phase:
    """Answers that the clients received in one phase of the run."""

    name: str
    records: Sequence[Record]
    took_s: float

    @property
    def kinds(self) -> Counter[str]:
        return Counter(record.verdict.kind for record in self.records)

    @property
    def wrong(self) -> list[Record]:
        return [record for record in self.records if record.verdict.is_wrong]

    @property
    def failed(self) -> list[Record]:
        return [record for record in self.records if not record.verdict.is_right and not record.verdict.is_wrong]

    @property
    def after_wait(self) -> list[Record]:
        """Requests that found no worker within the maximum wait: they got status 503, or failed within a stream."""
        return [
            record
            for record in self.failed
            if record.verdict.kind.startswith(("status 503", "error event")) and record.pause_s >= WAIT_S - EARLY_S
        ]

    def ttft_s(self, percent: int) -> float | None:
        return percentile((record.ttft_s for record in self._right if record.ttft_s is not None), percent)

    def took_by_s(self, percent: int) -> float | None:
        return percentile((record.took_s for record in self._right), percent)

    @property
    def _right(self) -> list[Record]:
        return [record for record in self.records if record.verdict.is_right]


def percentile(values: Iterable[float], percent: int) -> float | None:
    ordered = sorted(values)
    if len(ordered) < 2:
        return ordered[0] if ordered else None
    return statistics.quantiles(ordered, n=100, method="inclusive")[percent - 1]


class Clients:
    """Client processes of one phase."""

    def __init__(
        self, processes: Processes, phase: str, url: str, seconds: float, arguments: argparse.Namespace
    ) -> None:
        self.children: list[Child] = []
        first = 0 if phase == "calm" else arguments.clients  # no question is asked in both phases
        for number in range(arguments.client_processes):
            share = arguments.clients // arguments.client_processes
            share += number < arguments.clients % arguments.client_processes
            options = {
                "--url": url,
                "--clients": share,
                "--first": first,
                "--seconds": seconds,
                "--tokens": arguments.tokens,
                "--seed": arguments.seed,
            }
            command = [sys.executable, "-m", "benchmarks.chaos_clients"]
            command += [str(word) for option in options.items() for word in option]
            self.children.append(processes.start(f"clients-{phase}-{number}", command))
            first += share

    @property
    def have_ended(self) -> bool:
        return all(child.has_ended for child in self.children)

    def records(self) -> list[Record]:
        """Return the records of the clients. Raises `ChildFailedError` if clients have not ended, or ended with an
        error.
        """
        lines = [line for child in self.children for line in child.wait(timeout_s=LINGER_S).splitlines()]
        return sorted((msgspec.json.decode(line, type=Record) for line in lines), key=lambda record: record.at)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of both phases, and the faults of the second phase."""

    calm: Phase
    chaos: Phase
    inflicted: Sequence[Inflicted]
    passed_over: int
    totals: dict[str, float | None]
    """Totals of the second phase from the gateway's metrics, or None for a missing metric."""


@dataclass(frozen=True, slots=True)
class SetUp:
    """Gateway and workers that are ready."""

    workers: Sequence[SimulatedWorker]
    process: Child
    """Process of the gateway."""
    url: str
    """URL of the gateway."""

    @classmethod
    def start(cls, processes: Processes, arguments: argparse.Namespace) -> "SetUp":
        """Start the gateway and the workers. Raises `ChildFailedError` if one does not start."""
        options = ("--tpot-ms", f"{arguments.tpot_ms:g}")
        workers = [SimulatedWorker(processes, f"worker{number}", options) for number in range(arguments.workers)]
        for worker in workers:
            worker.wait_ready()
        process, url = start_gateway(
            processes, settings([worker.url for worker in workers]), command=arguments.gateway, name="gateway"
        )
        return cls(workers, process, url)


def run_both(processes: Processes, arguments: argparse.Namespace) -> Outcome:
    """Run both phases. Raises `ChildFailedError` if a process ended or did not start."""
    set_up = SetUp.start(processes, arguments)
    calm = without_faults(processes, set_up, arguments)
    _say(f"without faults: {dict(calm.kinds)}")
    headers = {"authorization": f"Bearer {ADMIN_KEY}"}
    with httpx.Client(base_url=set_up.url, headers=headers, timeout=10.0, verify=False) as client:
        return with_faults(processes, set_up, GatewayUnderTest(client), calm, arguments)


def without_faults(processes: Processes, set_up: SetUp, arguments: argparse.Namespace) -> Phase:
    begun = time.monotonic()
    records = Clients(processes, "calm", set_up.url, arguments.calm_s, arguments).records()
    return Phase("no faults", records, time.monotonic() - begun)


def with_faults(
    processes: Processes, set_up: SetUp, gateway: GatewayUnderTest, calm: Phase, arguments: argparse.Namespace
) -> Outcome:
    """Run the second phase, and return its results together with those of the first phase."""
    mischief = Mischief(
        set_up.workers,
        gateway,
        random.Random(arguments.seed),
        every_s=1 / arguments.faults_per_s,
        all_down_every_s=arguments.all_down_every_s if arguments.all_down else None,
    )
    before = {name: gateway.total(name) for name in TOTALS}
    clients = Clients(processes, "chaos", set_up.url, arguments.minutes * 60, arguments)
    begun, until = time.monotonic(), arguments.minutes * 60
    while not clients.have_ended and (now := time.monotonic() - begun) < until + LINGER_S:
        if now < until:
            mischief.look(now)
        else:
            mischief.end()
        if set_up.process.has_ended:
            raise ChildFailedError(f"the gateway ended:\n{set_up.process.last_words()}")
        time.sleep(LOOK_S)
    records = clients.records()
    chaos = Phase("faults", records, time.monotonic() - begun)
    if arguments.keep is not None:
        keep(arguments.keep, set_up.process, records, mischief.inflicted)
    after = {name: gateway.total(name) for name in TOTALS}
    totals = {name: None if (value := after[name]) is None else value - (before[name] or 0.0) for name in TOTALS}
    return Outcome(calm, chaos, mischief.inflicted, mischief.passed_over, totals)


def keep(folder: Path, gateway: Child, records: Sequence[Record], inflicted: Sequence[Inflicted]) -> None:
    """Store data for analyzing failures: the gateway's log, every request and every fault."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (gateway.stdout, gateway.stderr):
        shutil.copy(path, folder / path.name)
    for name, lines in (("records", records), ("faults", inflicted)):
        (folder / f"{name}.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def tell(report: Report, outcome: Outcome, arguments: argparse.Namespace) -> None:
    """Print targets, tables and notes."""
    calm, chaos = outcome.calm, outcome.chaos
    report.bars = [
        Bar("wrong answers", len(chaos.wrong), "==", 0),
        _error_bar(chaos, is_all_down=arguments.all_down),
        Bar("requests that failed or were answered wrongly before there were faults", len(_not_right(calm)), "==", 0),
    ]
    continued = outcome.totals["warmgate_streams_continued_total"]
    if continued is not None:
        report.bars.append(Bar("streams that went on at another worker", continued, ">=", 1))
    report.tables = [_requests(outcome), _latency(calm, chaos), _faults(outcome.inflicted)]
    if failures := _not_right(chaos):
        rows = [
            (record.id, f"{record.took_s:.2f}", record.verdict.kind, record.verdict.detail)
            for record in failures[:WORST]
        ]
        report.tables.append(Table(f"Not right: the first {len(rows)}", ("request", "took s", "what", "detail"), rows))
    report.notes = notes(outcome, arguments)
    report.figures = {
        "kinds": {phase.name: dict(phase.kinds) for phase in (calm, chaos)},
        "totals": outcome.totals,
        "passed_over": outcome.passed_over,
        "inflicted": list(outcome.inflicted),
    }


def _not_right(phase: Phase) -> list[Record]:
    return [record for record in phase.records if not record.verdict.is_right]


def _error_bar(chaos: Phase, *, is_all_down: bool) -> Bar:
    if not is_all_down:
        return Bar("errors that a client saw", len(chaos.failed), "==", 0)
    others = len(chaos.failed) - len(chaos.after_wait)
    return Bar(f"errors that a client saw, but for 503 or an error event after a wait of {WAIT_S:g} s", others, "==", 0)


def _requests(outcome: Outcome) -> Table:
    calm, chaos = outcome.calm, outcome.chaos
    kinds = sorted({*calm.kinds, *chaos.kinds} - {"right"})
    rows: list[tuple[str, float | None, float | None]] = [
        ("requests", len(calm.records), len(chaos.records)),
        *((kind, _count(calm, kind), _count(chaos, kind)) for kind in ("right", *kinds)),
        (f"of these, after a wait of {WAIT_S:g} s", len(calm.after_wait), len(chaos.after_wait)),
        *((name, None, total) for name, total in outcome.totals.items()),
        ("took s", calm.took_s, chaos.took_s),
    ]
    return Table("Requests", ("", calm.name, chaos.name), rows)


def _count(phase: Phase, kind: str) -> int:
    return phase.kinds[kind]


def _latency(calm: Phase, chaos: Phase) -> Table:
    def row(
        name: str, before: float | None, during: float | None
    ) -> tuple[str, float | None, float | None, float | None]:
        added = None if before is None or during is None else during - before
        return name, before, during, added

    rows = [row(f"TTFT p{percent} s", calm.ttft_s(percent), chaos.ttft_s(percent)) for percent in (50, 99)]
    rows += [
        row(f"whole answer p{percent} s", calm.took_by_s(percent), chaos.took_by_s(percent)) for percent in (50, 99)
    ]
    return Table("Latency of right answers", ("", calm.name, chaos.name, "added"), rows)


def _faults(inflicted: Sequence[Inflicted]) -> Table:
    kinds = Counter(fault.kind for fault in inflicted)
    rows = [(kind, kinds[kind]) for kind in (*SINGLE, "all down") if kinds[kind]]
    return Table("Faults", ("kind", "times"), [*rows, ("together", len(inflicted))])


def notes(outcome: Outcome, arguments: argparse.Namespace) -> list[str]:
    """Return notes on the conditions of the run."""
    said = [
        f"{arguments.workers} simulated workers with {arguments.tpot_ms:g} ms per token; {arguments.clients} clients "
        f"in {arguments.client_processes} processes, each with one stream of {arguments.tokens} tokens at a time, "
        "three chats to one completion, no prompt twice. The gateway has its default settings, and `continuation: "
        "tokens`.",
        f"A fault every {1 / arguments.faults_per_s:g} s: kill, stop for {STOP_S:g} s, reset, or drain for "
        f"{DRAINED_S[0]:g} to {DRAINED_S[1]:g} s with `hand_over_after_s` {HAND_OVER_AFTER_S:g}. Only a worker that "
        "the gateway calls ready is touched, and two that get requests are always left: "
        f"{outcome.passed_over} times none could be spared.",
        "Right is an answer whose text is that which follows from the prompt, with one id, one role, one end, the "
        "right usage, and `[DONE]`. Latencies are those of right answers, as the clients have them; everything shares "
        "the cores of one machine.",
    ]
    if arguments.all_down:
        said.append(
            f"Every {arguments.all_down_every_s:g} s, once all are well, all workers are killed, for 2 to 15 s and the "
            f"time of a start. Requests wait {WAIT_S:g} s for one; then they get 503, or, within a stream, an "
            "error event."
        )
    return said


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("chaos", __doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="with faults")
    parser.add_argument("--calm-s", type=float, default=60.0, help="without, before that")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--client-processes", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--tpot-ms", type=float, default=40.0)
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--faults-per-s", type=float, default=1.0)
    parser.add_argument("--all-down", action="store_true", help="now and then, kill all workers at once")
    parser.add_argument("--all-down-every-s", type=float, default=45.0)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the gateway's log and every request there")
    add_gateway_option(parser)
    return parser.parse_args(arguments)


def run(arguments: argparse.Namespace) -> Report:
    name, title = ("chaos_all_down", ", all down at times") if arguments.all_down else ("chaos", "")
    report = Report(
        name,
        f"Streams while workers die{title}",
        Circumstances.observe(seed=arguments.seed, packages=PACKAGES),
    )
    with Processes() as processes:
        outcome = run_both(processes, arguments)
    tell(report, outcome, arguments)
    return report


def main() -> int:
    arguments = parse_arguments()
    return conclude("chaos", lambda: run(arguments), results=arguments.results, cannot_run=[ChildFailedError])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
