"""Delay of one team while another team sends too many requests, with the real gateway over HTTP and simulated workers
in real time.

Team `flood` has 200 clients that send their next request as soon as they get an answer, which far exceeds the capacity
of the workers. Team `sparse` sends two requests per second, regardless of earlier answers. Each set-up has its own
gateway and workers with cold caches, and prompts have no common parts.

1. alone: `sparse` only, after some requests of `flood` one by one, which tell how long one of its prefills takes.
2. fair: both, each team with a key of its own.
3. in order of arrival: both before a gateway that knows no teams, and sends every request at once: it waits in the
   queue of an engine.

Workers and clients run *speed* times as fast as the clock, and all figures are in their time. Time that the gateway and
this machine need therefore counts *speed* times.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import json
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
from routing.strategies import NAMES

PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "httpx", "numpy", "msgspec")
PREFILL_TOKENS_PER_S = 10_000.0
OUTPUT_TOKENS = 20
CHARACTERS_PER_TOKEN = 4
"""Characters per token of words of `LETTERS`, in a simulated worker."""
LETTERS = "etaoinshrdlcumpg"
"""Letters of which the simulated vocabulary makes one token from any four, so that all prompts of a team have equal
length.
"""
SLACK_S, SHARE_BAR = 0.1, 0.25
WARM_UP_S = 20.0
"""Seconds, in the time of the workers, from the start of the flood to the first request that counts."""
ONE_BY_ONE = 20
"""Number of requests of the flood that are sent one by one to measure a single prefill."""

Secrets = dict[str, str]
SECRETS: Secrets = {"flood": "key-of-the-team-that-floods", "sparse": "key-of-the-team-that-does-not"}


@dataclass(frozen=True, slots=True)
class Side:
    """The load of one team."""

    team: str
    prompt_tokens: int

    def body(self, number: int) -> dict[str, Any]:
        """Return a request body whose prompt differs from all others in its first block."""
        word = self.team[0] + "".join(LETTERS[number >> bits & 15] for bits in range(0, 24, 4)) + " "
        return {
            "model": "tiny",
            "prompt": word * (self.prompt_tokens * CHARACTERS_PER_TOKEN // len(word)),
            "max_tokens": OUTPUT_TOKENS,
            "ignore_eos": True,
            "stream": True,
        }


class Clients:
    """Clients of one gateway, whose times are in the time of the workers."""

    def __init__(self, url: str, client: httpx.AsyncClient, speed: float) -> None:
        self._url = url
        self._client = client
        self._speed = speed
        self._asked = 0

    async def ttft_s(self, side: Side) -> float:
        """Send one request, wait for the end of its answer, and return the time to its first token."""
        self._asked += 1
        headers = {"authorization": f"Bearer {SECRETS[side.team]}"}
        begun, first = time.monotonic(), None
        url, body = f"{self._url}/v1/completions", side.body(self._asked)
        async with self._client.stream("POST", url, json=body, headers=headers) as reply:
            reply.raise_for_status()
            async for line in reply.aiter_lines():
                if first is None and line.startswith("data: {"):
                    first = time.monotonic()
                    if "error" in json.loads(line.removeprefix("data: ")):
                        raise RuntimeError("a request failed")
        if first is None:
            raise RuntimeError("an answer was empty")
        return (first - begun) * self._speed

    async def one_by_one(self, side: Side, count: int) -> list[float]:
        return [await self.ttft_s(side) for _ in range(count)]

    async def flood(self, side: Side, clients: int) -> None:
        """Send requests of the flood until cancelled."""

        async def client() -> None:
            while True:
                await self.ttft_s(side)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(client())

    async def sparse(self, side: Side, count: int, per_s: float) -> list[float]:
        """Send *count* requests at equal intervals, and return their results in the same order."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            asked = []
            for number in range(count):
                await asyncio.sleep(max(0.0, begun + number / per_s / self._speed - time.monotonic()))
                asked.append(tasks.create_task(self.ttft_s(side)))
        return [task.result() for task in asked]


@contextmanager
def serving(options: argparse.Namespace, *, teams: bool) -> Iterator[str]:
    """Yield the URL of a gateway with new workers. The gateway's times are scaled like the workers' times."""
    speed: float = options.speed
    with Processes() as processes:
        workers = []
        for i in range(options.workers):
            flags = ["--timing", options.timing, "--blocks", str(options.blocks), "--speed", f"{speed:g}"]
            command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", *flags]
            workers.append(processes.start(f"worker{i}", command))
        settings: dict[str, Any] = {
            "server": {"port": free_port()},
            "models": [
                {
                    "name": "tiny",
                    "strategy": options.strategy,
                    "workers": [{"url": worker.wait_for_ready_line()} for worker in workers],
                }
            ],
            "advanced": {"release_depth_s": 0.05 / speed, "initial_prefill_tokens_per_s": 2000.0 * speed},
            "health": {"metrics_interval_s": 5.0 / speed},
            "queue": {"starvation_s": 30.0 / speed},
        }
        if teams:
            settings["teams"] = [
                {"name": team, "keys": [{"id": team, "secret": secret}]} for team, secret in SECRETS.items()
            ]
        yield start_gateway(processes, settings)[1]


@dataclass(frozen=True, slots=True)
class Summary:
    """Times to first token of team `sparse` in one set-up, in seconds of the workers."""

    setup: str
    requests: int
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, setup: str, ttfts_s: Sequence[float]) -> "Summary":
        ordered = sorted(ttfts_s)
        p50, p90, p99 = (ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in (50, 90, 99))
        return cls(setup, len(ordered), p50, p90, p99, ordered[-1])


async def alone(options: argparse.Namespace) -> tuple[Summary, Summary]:
    """Return the summary of `sparse` alone, and the summary of the flood's requests sent one by one."""
    flood, sparse = sides(options)
    with serving(options, teams=True) as url:
        async with a_client() as client:
            clients = Clients(url, client, options.speed)
            one_by_one = await clients.one_by_one(flood, ONE_BY_ONE)
            ttfts_s = await clients.sparse(sparse, options.requests, options.per_s)
    return Summary.of("alone", ttfts_s), Summary.of("one by one", one_by_one)


async def beside_the_flood(options: argparse.Namespace, setup: str, *, teams: bool) -> Summary:
    flood, sparse = sides(options)
    with serving(options, teams=teams) as url:
        async with a_client() as client:
            clients = Clients(url, client, options.speed)
            async with asyncio.TaskGroup() as tasks:
                flooding = tasks.create_task(clients.flood(flood, options.clients))
                await asyncio.sleep(WARM_UP_S / options.speed)
                ttfts_s = await clients.sparse(sparse, options.requests, options.per_s)
                flooding.cancel()
    return Summary.of(setup, ttfts_s)


def sides(options: argparse.Namespace) -> tuple[Side, Side]:
    return Side("flood", options.flood_tokens), Side("sparse", options.sparse_tokens)


def a_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=600, verify=False, limits=httpx.Limits(max_connections=None))


@dataclass(frozen=True, slots=True)
class Found:
    """Results of the set-ups."""

    alone: Summary
    one_by_one: Summary
    """Summary of the flood's requests, sent one at a time without other load."""
    fair: Summary
    in_order: Summary


async def run(options: argparse.Namespace) -> Report:
    circumstances = Circumstances.observe(seed=None, packages=PACKAGES)
    report = Report("fairness", "One team beside another that floods", circumstances)
    by_itself, one_by_one = await alone(options)
    fair = await beside_the_flood(options, "fair", teams=True)
    in_order = await beside_the_flood(options, "in order of arrival", teams=False)
    tell(report, Found(by_itself, one_by_one, fair, in_order), options)
    return report


def tell(report: Report, found: Found, options: argparse.Namespace) -> None:
    prefill_s = found.one_by_one.p50_s
    limit_s = found.alone.p99_s + prefill_s + SLACK_S
    report.bars = [
        Bar(
            "sparse beside the flood: TTFT p99 in s; alone + one prefill of the flood + 100 ms",
            found.fair.p99_s,
            "<=",
            limit_s,
        ),
        Bar(
            "sparse beside the flood: TTFT p99, share of that in order of arrival",
            found.fair.p99_s / found.in_order.p99_s,
            "<=",
            SHARE_BAR,
        ),
    ]
    summaries = (found.alone, found.fair, found.in_order)
    rows = [(each.setup, each.requests, each.p50_s, each.p90_s, each.p99_s, each.max_s) for each in summaries]
    report.tables = [
        Table("Time to first token of sparse", ("set-up", "requests", "p50 s", "p90 s", "p99 s", "max s"), rows)
    ]
    report.notes = [
        f"{options.workers} simulated workers ({options.timing}, {PREFILL_TOKENS_PER_S:g} tokens of prefill a second), "
        f"strategy {options.strategy}.",
        f"flood: {options.clients} clients, prompts of {options.flood_tokens} tokens, a prefill {prefill_s:.3g} s. "
        f"sparse: {options.per_s:g} requests per second, prompts of {options.sparse_tokens} tokens.",
        f"All times are those of the workers, which live {options.speed:g} times as fast as the clock: "
        "what the gateway and the machine take counts as often.",
    ]
    report.figures = {"found": found}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("fairness", __doc__)
    parser.add_argument("--clients", type=int, default=200, help="of the team that floods")
    parser.add_argument("--requests", type=int, default=1000, help="of the other team")
    parser.add_argument("--per-s", type=float, default=2.0, help="of them, in a second of the workers")
    parser.add_argument("--flood-tokens", type=int, default=4096, help="in each prompt of the team that floods")
    parser.add_argument("--sparse-tokens", type=int, default=1024, help="in each prompt of the other")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast as the clock the workers live")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=32_768, help="KV cache of a worker, in blocks of 16 tokens")
    parser.add_argument("--timing", choices=("chunked", "fifo"), default="chunked")
    parser.add_argument("--strategy", choices=NAMES, default="prefix_aware")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse_arguments()
    return conclude(
        "fairness", lambda: uvloop.run(run(options)), results=options.results, cannot_run=[ChildFailedError]
    )


if __name__ == "__main__":
    sys.exit(main())
