"""Benchmark of routing requests for LoRA adapters, with the real gateway over HTTP and simulated workers in real time.

Every worker starts with some of the adapters, loads others on request, and can hold a few. Requests arrive at random,
and each has a different prompt, so workers differ only in their adapters.

* even: every adapter is asked for as often as any other. One worker could serve all requests for one of them.
* hot: most requests are for one adapter, more than one worker could serve.

Each workload runs on a gateway that compares loading with waiting (`prefix_aware`), and on one that ignores costs
(`round_robin`). Each gateway has its own workers and gets the same requests at the same times.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvloop

from benchmarks.processes import ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude

PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "httpx", "numpy", "msgspec")
PREFILL_TOKENS_PER_S = 10_000.0
LOAD_S = 0.5
OUTPUT_TOKENS = 8
CHARACTERS_PER_TOKEN = 4
LETTERS = "etaoinshrdlcumpg"
"""Letters of which the vocabulary of the simulated workers makes one token from any four."""
HOT_SHARE = 0.9
STRATEGIES = ("prefix_aware", "round_robin")
WORKLOADS = ("even", "hot")


@dataclass(frozen=True, slots=True)
class Arrival:
    at_s: float
    adapter: str
    number: int
    """Number of the request, unique in the run."""

    def body(self, prompt_tokens: int) -> dict[str, Any]:
        word = "".join(LETTERS[self.number >> bits & 15] for bits in range(0, 28, 4)) + " "
        return {
            "model": self.adapter,
            "prompt": word * (prompt_tokens * CHARACTERS_PER_TOKEN // len(word)),
            "max_tokens": OUTPUT_TOKENS,
            "ignore_eos": True,
            "stream": True,
        }


def names(count: int) -> list[str]:
    return [f"adapter-{number}" for number in range(count)]


def arrivals(workload: str, options: argparse.Namespace) -> list[Arrival]:
    """Return Poisson arrival times, the same for every gateway."""
    rng = random.Random(f"{workload} {options.seed}")
    adapters = names(options.adapters)
    found, at_s = [], 0.0
    for number in range(options.requests):
        at_s += rng.expovariate(options.per_s)
        is_hot = workload == "hot" and rng.random() < HOT_SHARE
        found.append(Arrival(at_s, adapters[0] if is_hot else rng.choice(adapters), number))
    return found


@contextmanager
def serving(strategy: str, options: argparse.Namespace) -> Iterator[str]:
    """Yield the URL of a gateway with new workers, among which the adapters are distributed."""
    adapters = names(options.adapters)
    with Processes() as processes:
        workers = []
        for i in range(options.workers):
            own = [flag for name in adapters[i :: options.workers] for flag in ("--lora-module", name)]
            flags = ["--lora-load-ms", f"{LOAD_S * 1000:g}", "--prefill-tokens-per-s", f"{PREFILL_TOKENS_PER_S:g}"]
            command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--blocks", "32768", *flags, *own]
            workers.append({"url": processes.start(f"worker{i}", command).wait_for_ready_line()})
        of_base: dict[str, Any] = {"of": "tiny", "load_on_demand": True, "max_per_worker": options.most_per_worker}
        models: list[dict[str, Any]] = [
            {
                "name": name,
                "strategy": strategy,
                "workers": workers,
                "adapter": {**of_base, "path": f"/adapters/{name}"},
            }
            for name in adapters
        ]
        settings: dict[str, Any] = {
            "server": {"port": free_port()},
            "logging": {"requests": False},
            "models": [{"name": "tiny", "workers": workers}, *models],
        }
        yield start_gateway(processes, settings)[1]


@dataclass(frozen=True, slots=True)
class Summary:
    """Results of one gateway under one workload. Times are times to the first token."""

    workload: str
    strategy: str
    requests: int
    loads: int
    """Number of times that a worker loaded an adapter on request."""
    p50_s: float
    p95_s: float
    p99_s: float

    @classmethod
    def of(cls, workload: str, strategy: str, loads: int, ttfts_s: Sequence[float]) -> "Summary":
        ordered = sorted(ttfts_s)
        p50, p95, p99 = (ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in (50, 95, 99))
        return cls(workload, strategy, len(ordered), loads, p50, p95, p99)


async def ttft_s(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> float:
    """Send one request, read its answer, and return the time to its first token.

    Raises:
        RuntimeError: if the answer has no token.
    """
    begun, first = time.monotonic(), None
    async with client.stream("POST", f"{url}/v1/completions", json=body) as reply:
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            if first is None and line.startswith("data: {"):
                first = time.monotonic()
    if first is None:
        raise RuntimeError("an answer was empty")
    return first - begun


async def replayed(client: httpx.AsyncClient, url: str, wanted: Sequence[Arrival], prompt_tokens: int) -> list[float]:
    """Send each request at its time, without waiting for earlier requests."""
    begun = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        asked = []
        for arrival in wanted:
            await asyncio.sleep(max(0.0, begun + arrival.at_s - time.monotonic()))
            asked.append(tasks.create_task(ttft_s(client, url, arrival.body(prompt_tokens))))
    return [task.result() for task in asked]


def loads_in(exposition: str) -> int:
    """Return the number of adapter loads, from the metrics of a gateway."""
    lines = [line for line in exposition.splitlines() if line.startswith("warmgate_adapter_loads_total{")]
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'result="loaded"' in line))


async def measured(workload: str, strategy: str, options: argparse.Namespace) -> Summary:
    with serving(strategy, options) as url:
        async with httpx.AsyncClient(
            timeout=600, verify=False, limits=httpx.Limits(max_connections=None), trust_env=False
        ) as client:
            ttfts_s = await replayed(client, url, arrivals(workload, options), options.prompt_tokens)
            loads = loads_in((await client.get(f"{url}/metrics")).text)
    return Summary.of(workload, strategy, loads, ttfts_s)


async def run(options: argparse.Namespace) -> Report:
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES)
    report = Report("adapters", "LoRA adapters: waiting or loading", circumstances)
    tell(report, [await measured(w, s, options) for w in WORKLOADS for s in STRATEGIES], options)
    return report


def tell(report: Report, summaries: Sequence[Summary], options: argparse.Namespace) -> None:
    found = {(each.workload, each.strategy): each for each in summaries}
    report.bars = []
    for workload in WORKLOADS:
        by_cost, blind = (found[workload, strategy] for strategy in STRATEGIES)
        report.bars += [
            Bar(f"{workload}: loads, share of those of round_robin", by_cost.loads / max(1, blind.loads), "<=", 0.5),
            Bar(f"{workload}: TTFT p95, share of that of round_robin", by_cost.p95_s / blind.p95_s, "<=", 1.0),
        ]
    report.bars.append(Bar("hot: loads, for one worker could not serve it", found["hot", STRATEGIES[0]].loads, ">=", 1))
    report.tables = [
        Table(
            "Time to first token",
            ("workload", "strategy", "requests", "loads", "p50 s", "p95 s", "p99 s"),
            [(s.workload, s.strategy, s.requests, s.loads, s.p50_s, s.p95_s, s.p99_s) for s in summaries],
        )
    ]
    report.notes = [
        f"{options.workers} simulated workers ({PREFILL_TOKENS_PER_S:g} tokens of prefill a second), "
        f"{options.adapters} adapters, {options.most_per_worker} at most on a worker; a load takes {LOAD_S:g} s.",
        f"{options.per_s:g} requests a second with prompts of {options.prompt_tokens} tokens, none of which is cached; "
        f"hot: {HOT_SHARE:.0%} of them for one adapter.",
    ]
    report.figures = {"summaries": list(summaries)}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("adapters", __doc__)
    parser.add_argument("--requests", type=int, default=240, help="of each run")
    parser.add_argument("--per-s", type=float, default=12.0)
    parser.add_argument("--prompt-tokens", type=int, default=1200)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--adapters", type=int, default=6)
    parser.add_argument("--most-per-worker", type=int, default=3)
    return parser.parse_args(arguments)


def main() -> int:
    options = parse_arguments()
    return conclude(
        "adapters", lambda: uvloop.run(run(options)), results=options.results, cannot_run=[ChildFailedError]
    )


if __name__ == "__main__":
    sys.exit(main())
