"""Effects on clients while a zone fails, Redis is restarted, and all gateways are replaced.

Two zones, each with a gateway and two simulated workers, run behind a real HAProxy. A Redis with an append-only file
holds keys, limits and messages between gateways. Clients stream continuously and never retry. Meanwhile, these steps
happen:

    zone      its workers are killed at once, its gateway gets SIGTERM, as by a shift of traffic; all come back
    Redis     it is killed, away for some seconds, and begins again
    rollout   one gateway after the other gets SIGTERM, and starts again
    no notice a zone is killed with its gateway; what that gateway had begun to answer is cut, and nothing else

Every answer is compared with the expected answer. The table of results is in deploy/README.md.

Needs HAProxy and Redis or Valkey. Takes two minutes.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec

from benchmarks.balancer import Redis, start_haproxy
from benchmarks.chaos import percentile
from benchmarks.chaos_clients import Record
from benchmarks.chaos_faults import SimulatedWorker
from benchmarks.processes import Child, ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude

ZONES = ("a", "b")
WORKERS = 2
"""Workers in each zone."""
KEY = "benchmark-key-0123456789abcdef"
LIMITS = {"requests_per_minute": 100_000, "tokens_per_minute": 50_000_000, "max_concurrent_requests": 1_000}
"""Limits that are never reached, but counted for every request."""
AWAY_S = 5.0
"""Time in seconds for which a killed part stays down."""
CALM_S = 10.0
"""Time in seconds before the first step and after each step."""
STOP_DELAY_S = 2.0
"""Time in seconds between SIGTERM and the stop of a gateway. HAProxy checks gateways twice a second."""
GRACE_S = 30
ENDS_S = 60.0
READY_S = 30.0
LINGER_S = 150.0
WORST = 20
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "redis", "msgspec", "numpy")


class Gateway:
    """Gateway of one zone, always on the same port."""

    def __init__(self, processes: Processes, zone: str, workers: Sequence[dict[str, str]], store: str) -> None:
        self.port = free_port()
        self._processes = processes
        self._zone = zone
        self._settings: dict[str, Any] = {
            "server": {
                "host": "127.0.0.1",
                "port": self.port,
                "zone": zone,
                "stop_delay_s": STOP_DELAY_S,
                "shutdown_grace_s": GRACE_S,
            },
            "models": [{"name": "tiny", "continuation": "tokens", "workers": list(workers)}],
            "teams": [{"name": "drill", "limits": LIMITS, "keys": [{"id": "drill", "secret": KEY}]}],
            "store": {"url": store, "replicas": len(ZONES)},
            "logging": {"requests": False},
        }
        self._lives = 0
        self._child = self._start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def tell_to_end(self) -> None:
        self._child.process.send_signal(signal.SIGTERM)

    def wait_for_end(self) -> None:
        """Wait until the gateway has ended. Raises ChildFailedError if the gateway ended with an error."""
        self._child.wait(timeout_s=ENDS_S)

    def kill(self) -> None:
        os.killpg(self._child.process.pid, signal.SIGKILL)
        self._child.process.wait()

    def restart(self) -> None:
        """Restart the gateway. Raises ChildFailedError if the gateway does not start or finds no available worker."""
        self._child = self._start()
        with httpx.Client(timeout=10.0) as client:
            give_up_at = time.monotonic() + READY_S
            while client.get(f"{self.url}/readyz").status_code != httpx.codes.OK:
                if time.monotonic() >= give_up_at:
                    raise ChildFailedError(f"the gateway of zone {self._zone} is not ready")
                time.sleep(0.1)

    def _start(self) -> Child:
        self._lives += 1
        name = f"gateway-{self._zone}-{self._lives}"
        return start_gateway(self._processes, self._settings, name=name)[0]


@dataclass(frozen=True, slots=True)
class Site:
    """All programs that can fail."""

    gateways: dict[str, Gateway]
    workers: dict[str, list[SimulatedWorker]]
    redis: Redis
    url: str
    """Address of HAProxy."""

    @classmethod
    def start(cls, processes: Processes, *, tpot_ms: float) -> "Site":
        """Start all programs. Raises ChildFailedError if one does not start."""
        redis = Redis(processes, is_kept=True)
        options = ("--tpot-ms", f"{tpot_ms:g}")
        workers = {
            zone: [SimulatedWorker(processes, f"worker-{zone}-{number}", options) for number in range(WORKERS)]
            for zone in ZONES
        }
        for zone in ZONES:
            for worker in workers[zone]:
                worker.wait_ready()
        cards = [{"url": worker.url, "zone": zone} for zone in ZONES for worker in workers[zone]]
        gateways = {zone: Gateway(processes, zone, cards, redis.url) for zone in ZONES}
        url = start_haproxy(processes, [gateway.url for gateway in gateways.values()])
        return cls(gateways, workers, redis, url)

    def lose_zone(self) -> None:
        """Kill the workers of zone b, stop its gateway gracefully, and then start zone b again."""
        gateway = self.gateways["b"]
        gateway.tell_to_end()
        self._kill_workers("b")
        gateway.wait_for_end()
        time.sleep(AWAY_S)
        self._bring_back("b")

    def lose_redis(self) -> None:
        self.redis.kill()
        time.sleep(AWAY_S)
        self.redis.restart()

    def roll_out(self) -> None:
        for gateway in self.gateways.values():
            gateway.tell_to_end()
            gateway.wait_for_end()
            gateway.restart()
            time.sleep(STOP_DELAY_S)  # until HAProxy knows, as a readiness gate makes a rollout wait

    def lose_zone_without_notice(self) -> None:
        """Kill all workers of zone b and its gateway."""
        self.gateways["b"].kill()
        self._kill_workers("b")
        time.sleep(AWAY_S)
        self._bring_back("b")

    def _kill_workers(self, zone: str) -> None:
        for worker in self.workers[zone]:
            worker.kill()

    def _bring_back(self, zone: str) -> None:
        for worker in self.workers[zone]:
            worker.restart()
        for worker in self.workers[zone]:
            worker.wait_ready()
        self.gateways[zone].restart()


@dataclass(frozen=True, slots=True)
class Step:
    """Step of the drill, which changes the site."""

    name: str
    happens: str
    do: Callable[[Site], None]
    cuts: bool = False
    """Whether the step kills a gateway, which cuts the answers that the gateway had begun."""


def _nothing(_: Site) -> None: ...


STEPS = (
    Step("calm", "nothing", _nothing),
    Step("zone", "the workers of a zone are killed, its gateway is told to end; all come back", Site.lose_zone),
    Step("Redis", f"killed, away for {AWAY_S:g} s, begins anew on its append-only file", Site.lose_redis),
    Step("rollout", "one gateway after the other is told to end, and begins anew", Site.roll_out),
    Step("no notice", "a zone is killed with its gateway; all come back", Site.lose_zone_without_notice, cuts=True),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """Answers of one step, with times in real seconds."""

    step: str
    happens: str
    lasted_s: float
    answers: int
    """Number of answers that ended in the step, correct or not."""
    cut: int
    """Number of answers that were cut because the step killed their gateway."""
    failed: int
    """Number of other failed answers."""
    wrong: int
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    longest_pause_s: float
    """Longest time in seconds without progress of a correct answer, including the time before the first byte."""

    @classmethod
    def of(cls, step: Step, records: Sequence[Record], lasted_s: float) -> "Seen":
        right = [record for record in records if record.verdict.is_right]
        missing = [record for record in records if not record.verdict.is_right and not record.verdict.is_wrong]
        cut = sum(step.cuts and is_cut(record) for record in missing)
        ttft_s = [record.ttft_s for record in right if record.ttft_s is not None]
        return cls(
            step.name,
            step.happens,
            lasted_s,
            len(records),
            cut,
            len(missing) - cut,
            sum(record.verdict.is_wrong for record in records),
            percentile(ttft_s, 50),
            percentile(ttft_s, 99),
            max((record.pause_s for record in right), default=0.0),
        )


def is_cut(record: Record) -> bool:
    """Whether the answer had begun when its connection ended."""
    return record.ttft_s is not None and record.verdict.kind == "cut"


def sorted_by_step(records: Sequence[Record], ends: Sequence[float]) -> list[list[Record]]:
    """Return *records* by the step in which each ended. *ends* are the Unix times at which the steps end."""
    found: list[list[Record]] = [[] for _ in ends]
    for record in records:
        ended = record.at + record.took_s
        found[min(sum(ended >= end for end in ends), len(ends) - 1)].append(record)
    return found


def start_clients(processes: Processes, url: str, options: argparse.Namespace) -> list[Child]:
    """Start two processes with half of the clients each, which send requests until they are stopped."""
    children = []
    for half in range(2):
        words = {
            "--url": url,
            "--clients": options.clients // 2,
            "--first": half * options.clients,
            "--seconds": options.seconds,
            "--tokens": options.tokens,
            "--seed": options.seed,
            "--key": KEY,
        }
        command = [sys.executable, "-m", "benchmarks.chaos_clients", *(str(w) for word in words.items() for w in word)]
        children.append(processes.start(f"clients-{half}", command))
    return children


def run(processes: Processes, options: argparse.Namespace) -> list[tuple[Seen, list[Record]]]:
    """Run one step after the other, and return what clients saw in each step.

    Raises:
        ChildFailedError: if a program does not start, end or recover, or the steps took longer than the clients ran.
    """
    site = Site.start(processes, tpot_ms=options.tpot_ms)
    clients = start_clients(processes, site.url, options)
    begun = time.time()
    ends = []
    for step in STEPS:
        step.do(site)
        time.sleep(CALM_S)
        ends.append(time.time())
        print(f"{step.name}: {ends[-1] - begun:.0f} s", file=sys.stderr)
    if ends[-1] > begun + options.seconds:
        raise ChildFailedError(f"the steps took longer than {options.seconds:g} s: more --seconds are needed")
    lines = [line for child in clients for line in child.wait(timeout_s=options.seconds + LINGER_S).splitlines()]
    records = sorted((msgspec.json.decode(line, type=Record) for line in lines), key=lambda record: record.at)
    lasted = [end - before for before, end in zip([begun, *ends], ends, strict=False)]
    each = zip(STEPS, sorted_by_step(records, ends), lasted, strict=True)
    return [(Seen.of(step, found, lasted_s), found) for step, found, lasted_s in each]


def tell(report: Report, found: Sequence[tuple[Seen, Sequence[Record]]]) -> None:
    """Write the targets and tables."""
    seen = [each for each, _ in found]
    report.bars = [
        Bar("requests that failed, or ended without their end, but for those cut by their own gateway's death",
            sum(each.failed for each in seen), "==", 0),
        Bar("wrong answers", sum(each.wrong for each in seen), "==", 0),
        Bar("requests that were cut before a gateway was killed", sum(each.cut for each in seen[:-1]), "==", 0),
    ]  # fmt: skip
    rows = [
        (each.step, each.happens, each.answers, each.failed, each.cut, each.wrong, each.ttft_p50_s, each.ttft_p99_s,
         each.longest_pause_s)
        for each in seen
    ]  # fmt: skip
    columns = ("step", "what happens", "requests", "failed", "cut", "wrong", "TTFT p50 s", "p99 s", "longest pause s")
    report.tables = [Table("What clients see", columns, rows)]
    failures = [
        (each.step, record.id, record.verdict.kind, record.verdict.detail)
        for each, records in found
        for record in records
        if not record.verdict.is_right
    ]
    if failures:
        title = f"Not right: the first {min(len(failures), WORST)} of {len(failures)}"
        report.tables.append(Table(title, ("step", "request", "what", "detail"), failures[:WORST]))
    report.figures["seen"] = seen


def measure(options: argparse.Namespace) -> Report:
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES)
    report = Report("drill", "A zone, Redis and all gateways go", circumstances)
    with Processes() as processes:
        tell(report, run(processes, options))
    report.notes = [
        f"Two zones, each with a gateway and {WORKERS} simulated workers ({options.tpot_ms:g} ms per token), HAProxy, "
        f"a Redis. {options.clients} clients with a key and three limits, each with one stream of {options.tokens} "
        f"tokens at a time; none asks again. Each step ends with {CALM_S:g} quiet seconds.",
        "Failed: no whole and right answer. Cut: the same, of streams whose own gateway was killed: their connection "
        "ends with it, and only the client can ask again. What it had not begun to answer HAProxy sends to the other.",
        "Longest pause: for which a right answer stood still, or had not begun.",
    ]
    return report


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("drill", __doc__ or "")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--tpot-ms", type=float, default=40.0)
    parser.add_argument("--seconds", type=float, default=120.0, help="for which clients ask; the steps must fit")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse_arguments()
    return conclude("drill", lambda: measure(options), results=options.results, cannot_run=[ChildFailedError])


if __name__ == "__main__":
    sys.exit(main())
