"""Cost of the endpoint picker: picks per second, the time that it adds, and what callers wait for behind a real Envoy.

The picker has one core. The load, the stub workers and Envoy share another core. Rounds of all cases alternate, so that
a slow phase of the machine affects all of them. A gRPC server that does nothing shows what the gRPC library costs.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import random
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.bench import two_cores
from benchmarks.chat_bodies import SIZES, Size, bodies
from benchmarks.picker.callers import Waits, waits
from benchmarks.picker.exchange import Answer, Request
from benchmarks.picker.load import Found, with_in_flight, with_rate
from benchmarks.picker.rig import BARE, PICKER, WITH_KEYS, Rig, Server, check, envoy_version, samples, threads_cpu_s
from benchmarks.picker.tables import Case, Direct, Through, fill
from benchmarks.processes import ChildFailedError, Processes, core_busy_s, pinned
from benchmarks.report import Circumstances, Report, argument_parser, conclude
from benchmarks.shipped import build
from benchmarks.stub_worker import write_script
from tests.picker import environment

PACKAGES = ("grpcio", "protobuf", "uvloop", "numpy", "msgspec")
_, MEDIUM, LONG = SIZES
PROFILED = (Case(MEDIUM, 16), Case(LONG, 16))
SLOW_MS = 1000.0
"""Time to the first byte of workers that compute: about that of 55,000 tokens on one GPU, with most of them cached."""
CASES = (
    Case(MEDIUM, 1),
    Case(MEDIUM, 16),
    Case(MEDIUM, 64),
    Case(MEDIUM, 0, per_s=200.0),
    Case(LONG, 1),
    Case(LONG, 150),
)
"""Load without Envoy. The case without requests in flight has a constant rate."""
CASES_WITH_KEYS = (Case(MEDIUM, 1), Case(MEDIUM, 16))
CASES_THROUGH_ENVOY = (
    Case(MEDIUM, 1),
    Case(LONG, 1),
    Case(LONG, 20),
    Case(LONG, 150),
    Case(LONG, 150, worker_ms=SLOW_MS),
)


@dataclass(frozen=True, slots=True)
class Door:
    """Addresses of Envoy with and without the picker, in front of workers of one speed."""

    without: str
    through: str


class Measurements:
    """All measurements of one run."""

    def __init__(self, arguments: argparse.Namespace, *, core: int, load_core: int) -> None:
        self._seconds: float = arguments.seconds
        self._seed: int = arguments.seed
        self._cores = core, load_core
        answer = write_script("tiny").chat
        self._answer = Answer.of(answer[answer.index(b"\r\n\r\n") + 4 :])
        rng = random.Random(arguments.seed)
        self._bodies = {size.name: [each.encode() for each in bodies("requests", rng, size)] for size in SIZES}
        self.direct: list[Direct] = []
        self.through: list[Through] = []

    def measure(self, server: Server, case: Case, *, number: int) -> None:
        """Send the load *case* to *server*, in round *number*. A negative round is not recorded."""
        before, client_before = threads_cpu_s(server.child.process.pid), _own_cpu_s()
        busy_before = core_busy_s(self._cores[0])
        requests = [Request.of(body) for body in self._bodies[case.size.name]]
        found: Found
        if case.per_s is None:
            load = with_in_flight(server.address, requests, self._answer, case.in_flight, seconds=self._seconds)
        else:
            load = with_rate(server.address, requests, self._answer, case.per_s, seconds=self._seconds, seed=self._seed)
        found = uvloop.run(load)
        used = {name: s - before[name] for name, s in threads_cpu_s(server.child.process.pid).items()}
        if not found.times:
            raise ChildFailedError(f"{server.name}: no request of {case.name} succeeded:\n{server.child.last_words()}")
        busy_s = core_busy_s(self._cores[0]) - busy_before
        if number >= 0:
            self.direct.append(
                Direct.of(
                    server.name,
                    case,
                    number,
                    found,
                    loop_s=used["loop"],
                    others_s=used["others"],
                    client_s=_own_cpu_s() - client_before,
                    foreign_s=max(0.0, busy_s - sum(used.values())),
                )
            )
            say(f"round {number + 1}: {server.name}: {case.name}: {found.per_s:,.0f}/s")

    def measure_through_envoy(self, door: Door, case: Case, *, number: int) -> None:
        """Send the load *case* through Envoy, without and with the picker."""
        pair: list[Waits] = []
        for address in (door.without, door.through):
            sent = self._bodies[case.size.name]
            seconds = self._seconds + 2 * (case.worker_ms or 0.0) / 1e3
            found = uvloop.run(waits(address, sent, case.in_flight, seconds=seconds))
            if not found.first_byte_s:
                raise ChildFailedError(f"no request of {case.name} through Envoy succeeded")
            pair.append(found)
        without, through = pair
        if number >= 0:
            self.through.append(Through.of(case, number, without=without, through=through))
            say(f"round {number + 1}: Envoy: {case.name}: {without.per_s:,.0f}/s and {through.per_s:,.0f}/s")

    def body(self, size: Size) -> bytes:
        """Return one body of *size*."""
        return self._bodies[size.name][0]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(arguments: argparse.Namespace) -> Report:
    """Start all programs, measure all rounds, and return the report."""
    core, load_core = two_cores()
    try:
        environment.install()
    except subprocess.CalledProcessError as error:
        raise ChildFailedError(f"Envoy could not be installed: {error}") from error
    shipped = None if arguments.sources else build()
    with Processes() as processes, pinned({load_core}):
        tools = {"Envoy": envoy_version(processes)}
        report = Report(
            "picker",
            "Cost of the endpoint picker",
            Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools=tools),
        )
        rig = Rig(processes, core=core, load_core=load_core, shipped=shipped)
        measurements = Measurements(arguments, core=core, load_core=load_core)
        workers = rig.start_workers(name="workers")
        servers = [rig.start_bare(), *(rig.start_picker(name, workers) for name in (PICKER, WITH_KEYS))]
        doors: dict[float | None, Door] = {}
        if not arguments.without_envoy:
            doors[None] = _door(rig, workers, servers[1], measurements)
            slow = rig.start_workers(name="slow-workers", first_byte_ms=SLOW_MS)
            doors[SLOW_MS] = _door(rig, slow, rig.start_picker("picker of slow workers", slow), measurements)
        for server in servers:
            measurements.measure(server, Case(MEDIUM, 16), number=-1)
        for number in range(arguments.rounds):
            _measure_round(measurements, servers, doors, number=number)
        shares = _profile(rig, workers, measurements)
    fill(report, measurements.direct, measurements.through, shares, is_compiled=shipped is not None)
    return report


def _profile(rig: Rig, workers: Sequence[str], measurements: Measurements) -> dict[str, dict[str, int]]:
    """Return the samples of a picker from the sources for both sizes of bodies."""
    server, file = rig.start_sampled(workers)
    found = {}
    for case in PROFILED:
        measurements.measure(server, case, number=-1)
        samples(server, file)
        measurements.measure(server, case, number=-1)
        found[case.name] = samples(server, file)
    return found


def _door(rig: Rig, workers: Sequence[str], picker: Server, measurements: Measurements) -> Door:
    """Start Envoy twice in front of *workers*: without a picker, and with *picker*."""
    door = Door(rig.start_envoy(workers, None), rig.start_envoy(workers, picker))
    for address in (door.without, door.through):
        check(address, measurements.body(MEDIUM))
    return door


def _measure_round(
    measurements: Measurements, servers: Sequence[Server], doors: dict[float | None, Door], *, number: int
) -> None:
    for case in CASES:
        for server in servers:
            if server.name in {BARE, PICKER} or case in CASES_WITH_KEYS:
                measurements.measure(server, case, number=number)
    for case in CASES_THROUGH_ENVOY:
        if case.worker_ms in doors:
            measurements.measure_through_envoy(doors[case.worker_ms], case, number=number)


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("picker", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of load per case and round")
    parser.add_argument("--sources", action="store_true", help="the picker from the checkout, with nothing compiled")
    parser.add_argument("--without-envoy", action="store_true", help="only the cases without Envoy")
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    return conclude("picker", lambda: run(arguments), results=arguments.results, cannot_run=[ChildFailedError])
