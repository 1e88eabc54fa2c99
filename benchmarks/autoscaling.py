"""Check that a cluster would grow under load and shrink afterwards, using the queries of deploy/eks/autoscaling.

A real Prometheus scrapes a real gateway with simulated workers. The number of streaming clients grows from none to many
and falls to none again. Every few seconds, the program runs each query of both ScaledObjects and computes how many
replicas Kubernetes would request (`benchmarks/scaler.py`). Nothing is really scaled. The program knows the number of
open streams and compares the query results with that number.

Needs Prometheus (Debian: `apt-get install prometheus`). Takes five minutes.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from benchmarks.processes import ROOT, Child, ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude
from benchmarks.scaler import Scaler

MANIFESTS = ROOT / "deploy" / "eks" / "autoscaling"
MODEL = "llama-70b"
"""Name of the model in the manifests."""
WORKERS = 3
TPOT_MS = 3_000
"""Time per output token. Streams are slow, so that many are open at little cost."""
OPENED_S = 120.0
"""Time limit for all streams of a phase to begin."""
SCRAPE_S = 5
WINDOW_S = 60
"""Time range of the queries."""
LOOK_S = 5.0
SETTLED_S = WINDOW_S + 2 * SCRAPE_S
"""Time after a change until the queries cover only the time after the change."""
SETTLED_LOOKS = 3
"""Minimum number of looks after a phase has settled. On a busy machine, a look can take long."""
PACKAGES = ("httpx", "uvicorn", "uvloop", "prometheus-client")


@dataclass(frozen=True, slots=True)
class Phase:
    """Part of the run with a constant number of open streams."""

    name: str
    streams: int
    lasts_s: float


PHASES = (
    Phase("before", 0, 15),
    Phase("some", 100, SETTLED_S + 15),
    Phase("many", 460, SETTLED_S + 15),
    Phase("after", 0, SETTLED_S + 15),
)


@dataclass(frozen=True, slots=True)
class Look:
    """Query results of Prometheus at one moment, and the computed numbers of replicas."""

    at_s: float
    phase: Phase
    is_settled: bool
    """Whether the phase has lasted longer than the time range of the queries."""
    values: dict[str, float | None]
    """Values by scaler and trigger."""
    replicas: dict[str, int]
    """Replicas by scaler."""


class Prometheus:
    """Prometheus server that scrapes a gateway like a ServiceMonitor of the Helm chart."""

    def __init__(self, processes: Processes, target: str) -> None:
        """Start Prometheus. Raises ChildFailedError if Prometheus is not installed or does not start."""
        program = shutil.which("prometheus")
        if program is None:
            raise ChildFailedError("Prometheus is not installed (Debian: apt-get install prometheus)")
        labels = {"namespace": "warmgate", "service": "warmgate-pods", "pod": "warmgate-0"}
        scraped = {"job_name": "warmgate", "static_configs": [{"targets": [target], "labels": labels}]}
        config = processes.directory / "prometheus.yaml"
        config.write_text(yaml.safe_dump({"global": {"scrape_interval": f"{SCRAPE_S}s"}, "scrape_configs": [scraped]}))
        port = free_port()
        command = [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={processes.directory / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        child: Child = processes.start("prometheus", command)
        child.wait_for_port(port)
        self._url = f"http://127.0.0.1:{port}/api/v1/query"

    async def ask(self, http: httpx.AsyncClient, query: str) -> float | None:
        """Return the single value of *query* at this moment, or None if there is no value."""
        answer = (await http.get(self._url, params={"query": query})).raise_for_status().json()
        result = answer["data"]["result"]
        return float(result[0]["value"][1]) if result else None


def scalers() -> list[Scaler]:
    """Return the scalers of the manifests: first the gateways, then the engines."""
    files = ("keda-gateway.yaml", "keda-engines.yaml")
    return [Scaler.of(yaml.safe_load((MANIFESTS / file).read_text(encoding="utf-8"))) for file in files]


async def stream_for_ever(http: httpx.AsyncClient, url: str, number: int, has_begun: asyncio.Event) -> None:
    """Run a client that starts a new stream whenever one has ended."""
    body = {
        "model": MODEL,
        "stream": True,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": f"Client {number} would like to know. " * 4}],
    }
    while True:
        async with http.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            async for _ in response.aiter_raw():
                has_begun.set()


class Clients:
    """Clients that keep the number of open streams that a phase requires."""

    def __init__(self, http: httpx.AsyncClient, url: str, *, opened_s: float = OPENED_S) -> None:
        self._http = http
        self._url = url
        self._opened_s = opened_s
        self._open: list[asyncio.Task[None]] = []

    async def become(self, count: int) -> None:
        """Change the number of clients. Return when all new clients have started, or the surplus clients have ended.

        Raises:
            ChildFailedError: if some clients have not started in time.
        """
        loop = asyncio.get_running_loop()
        begun = []
        while len(self._open) < count:
            begun.append(asyncio.Event())
            self._open.append(loop.create_task(stream_for_ever(self._http, self._url, len(self._open), begun[-1])))
        leaving, self._open = self._open[count:], self._open[:count]
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        try:
            async with asyncio.timeout(self._opened_s):
                for event in begun:
                    await event.wait()
        except TimeoutError:
            self.check()
            raise ChildFailedError(f"{sum(not event.is_set() for event in begun)} streams did not begin") from None

    def check(self) -> None:
        """Raise the exception of a client that has ended. Clients never end without an error."""
        for task in self._open:
            if task.done():
                task.result()


async def drill(
    ask: Callable[[str], Awaitable[float | None]],
    clients: Clients,
    scaled: Sequence[Scaler],
    phases: Sequence[Phase],
    *,
    look_s: float = LOOK_S,
) -> list[Look]:
    """Run *phases*, look every *look_s* seconds, and compute replicas from the replicas of the previous look."""
    replicas = {scaler.name: scaler.least for scaler in scaled}
    looks: list[Look] = []
    began = time.monotonic()
    for phase in phases:
        await clients.become(phase.streams)
        phase_began = time.monotonic()
        settled = 0 if phase.lasts_s > SETTLED_S else SETTLED_LOOKS
        while (passed_s := time.monotonic() - phase_began) < phase.lasts_s or settled < SETTLED_LOOKS:
            clients.check()
            values: dict[str, float | None] = {}
            for scaler in scaled:
                answers = {trigger.name: await ask(trigger.query) for trigger in scaler.triggers}
                values |= {f"{scaler.name} {name}": value for name, value in answers.items()}
                replicas[scaler.name] = scaler.replicas(replicas[scaler.name], answers)
            is_settled = passed_s > SETTLED_S
            settled += is_settled
            looks.append(Look(time.monotonic() - began, phase, is_settled, values, dict(replicas)))
            await asyncio.sleep(look_s)
    await clients.become(0)
    return looks


async def _run() -> list[Look]:
    with Processes() as processes:
        workers = [_worker(processes, number) for number in range(WORKERS)]
        settings = {
            "server": {"host": "127.0.0.1", "port": free_port()},
            "models": [{"name": MODEL, "workers": [{"url": worker} for worker in workers]}],
            "logging": {"requests": False},
        }
        _, url = start_gateway(processes, settings)
        prometheus = Prometheus(processes, url.removeprefix("http://"))
        limits = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(timeout=60, limits=limits, verify=False) as http,
            httpx.AsyncClient(timeout=60, verify=False) as asking,
        ):
            scaled = scalers()
            queries = [trigger.query for scaler in scaled for trigger in scaler.triggers]
            await _answered(prometheus, asking, queries)
            return await drill(lambda query: prometheus.ask(asking, query), Clients(http, url), scaled, PHASES)


def _worker(processes: Processes, number: int) -> str:
    command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--model", MODEL, "--tpot-ms", str(TPOT_MS)]
    return processes.start(f"worker-{number}", command).wait_for_ready_line()


async def _answered(prometheus: Prometheus, http: httpx.AsyncClient, queries: Sequence[str]) -> None:
    """Wait until every query has a result.

    Raises:
        ChildFailedError: if a query had no result for a minute.
    """
    give_up_at = time.monotonic() + WINDOW_S
    while silent := [query for query in queries if await prometheus.ask(http, query) is None]:
        if time.monotonic() > give_up_at:
            raise ChildFailedError(f"Prometheus has no answer to {silent[0]}")
        await asyncio.sleep(1)


def report_of(looks: Sequence[Look], scaled: Sequence[Scaler], circumstances: Circumstances) -> Report:
    """Return the report, with targets and a row for every second look."""
    gateways, engines = scaled
    report = Report("autoscaling", "Replicas that Kubernetes would want, by the queries of deploy/eks", circumstances)
    settled = [look for look in looks if look.is_settled]
    reported = f"{engines.name} requests"
    errors = [abs((look.values[reported] or 0) - look.phase.streams) / max(1, look.phase.streams) for look in settled]
    silent = sum(value is None for look in looks for value in look.values.values())
    ended = looks[-1].replicas

    def highest(scaler: Scaler, phase: str) -> int:
        return max((look.replicas[scaler.name] for look in looks if look.phase.name == phase), default=0)

    report.bars = [
        Bar("queries that Prometheus had no answer to", silent, "==", 0),
        Bar("open streams by the query, largest relative error after a minute", max(errors), "<=", 0.05),
        Bar("engines under some load: 100 requests, 32 for each", highest(engines, "some"), ">=", 3),
        Bar("engines under much load: as many as there may be", highest(engines, "many"), "==", engines.most),
        Bar("gateways under some load: as few as there may be", highest(gateways, "some"), "==", gateways.least),
        Bar("gateways under much load: 460 requests, 200 for each", highest(gateways, "many"), "==", 3),
        Bar("engines at the end", ended[engines.name], "==", engines.least),
        Bar("gateways at the end", ended[gateways.name], "==", gateways.least),
    ]
    columns = ["s", "open streams", *looks[0].values, f"replicas of {gateways.name}", f"replicas of {engines.name}"]
    rows = [
        [round(look.at_s), look.phase.streams, *look.values.values(), *look.replicas.values()] for look in looks[::2]
    ]
    report.tables.append(Table("Answers, and the replicas that follow", columns, rows))
    for scaler in scaled:
        report.tables.append(
            Table(
                f"Queries of {scaler.name}, {scaler.least} to {scaler.most} replicas",
                ("trigger", "for one replica", "query"),
                [(trigger.name, trigger.target, f"`{trigger.query}`") for trigger in scaler.triggers],
            )
        )
    report.notes = [
        f"{WORKERS} simulated workers, {TPOT_MS} ms per token, and one gateway all the time: what is counted is what"
        " Kubernetes would want, and changes nothing.",
        f"Scraped every {SCRAPE_S} s. The windows of `behavior` are left out: in a cluster replicas come at the speed"
        " that it allows, and go after 10 (gateways) or 15 minutes (engines).",
        "100 requests at 32 for each engine are 3.1 engines. Where 3 are, that is within the tenth that is let pass.",
        "Triggers by the processor are left out: what they ask is not in Prometheus.",
    ]
    report.figures["looks"] = list(looks)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argument_parser("autoscaling", __doc__ or "")
    options = parser.parse_args(arguments)

    def run() -> Report:
        program = shutil.which("prometheus")
        tools = {} if program is None else {"prometheus": _version(Path(program))}
        circumstances = Circumstances.observe(seed=None, packages=PACKAGES, tools=tools)
        return report_of(asyncio.run(_run()), scalers(), circumstances)

    return conclude("autoscaling", run, results=options.results, cannot_run=(ChildFailedError, httpx.HTTPError))


def _version(program: Path) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, check=True, text=True)
    return said.stdout.split()[2]


if __name__ == "__main__":
    sys.exit(main())
