"""Comparison of separate prefill and decode workers with the same number of combined workers, with the real gateway
over HTTP and simulated workers in real time.

Prompts without common parts arrive at random times (Poisson), which are the same in both set-ups. The rate would keep
all prefill workers together busy for the share *load* of the time.

The timing model of combined workers (``engine_model/chunked.py``) computes prompts in chunks, and each chunk delays the
answers that are being generated. With separate workers, fewer workers compute prompts, each prompt costs two requests
and a transfer, and answers share fewer workers. A decode worker computes the last, partial block of each prompt itself,
which has the fixed cost of a prefill.

Workers and clients run *speed* times as fast as the clock, and all figures are in their time. Time that the gateway and
this machine need therefore counts *speed* times.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import itertools
import json
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
TPOT_MS = 12.0
TRANSFER_US_PER_TOKEN = 5.0
CHARACTERS_PER_TOKEN = 4
"""Characters per token of words of `LETTERS`, in a simulated worker."""
LETTERS = "etaoinshrdlcumpg"
WARM_UP = 8
"""Number of requests that are sent first and not counted, from which the gateway learns the speed of its workers."""
WARM_UP_TOKENS = 8
"""Length in tokens of the answers to these first requests."""
LONG_TOKENS = 4000
"""Minimum length of prompts for which the targets apply. Shorter prompts arrive so often that answers need all workers.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """Times of one request, in seconds of the workers."""

    ttft_s: float
    gaps_s: Sequence[float]
    """Pauses between consecutive tokens of the answer."""

    @property
    def tpot_s(self) -> float:
        return sum(self.gaps_s) / len(self.gaps_s)


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of the answers to prompts of one length in one set-up, in seconds of the workers."""

    setup: str
    prompt_tokens: int
    requests: int
    remote: int
    """Number of requests whose prompt a prefill worker computed."""
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    tpot_p50_s: float
    tpot_p99_s: float
    gap_p99_s: float
    """99th percentile of the pauses between consecutive tokens."""

    @classmethod
    def of(cls, setup: str, prompt_tokens: int, answers: Sequence[Answer], remote: int) -> "Summary":
        ttfts, tpots = sorted(each.ttft_s for each in answers), sorted(each.tpot_s for each in answers)
        gaps = sorted(gap for each in answers for gap in each.gaps_s)
        ttft_p50_s, ttft_p90_s, ttft_p99_s = (_percentile(ttfts, percent) for percent in (50, 90, 99))
        return cls(
            setup,
            prompt_tokens,
            len(answers),
            remote,
            ttft_p50_s=ttft_p50_s,
            ttft_p90_s=ttft_p90_s,
            ttft_p99_s=ttft_p99_s,
            tpot_p50_s=_percentile(tpots, 50),
            tpot_p99_s=_percentile(tpots, 99),
            gap_p99_s=_percentile(gaps, 99),
        )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def body(number: int, prompt_tokens: int, output_tokens: int) -> dict[str, Any]:
    """Return a request body whose prompt differs from all others in its first block."""
    word = "".join(LETTERS[number >> bits & 15] for bits in range(0, 28, 4)) + " "
    return {
        "model": "tiny",
        "prompt": word * (prompt_tokens * CHARACTERS_PER_TOKEN // len(word)),
        "max_tokens": output_tokens,
        "ignore_eos": True,
        "stream": True,
    }


def arrivals(per_s: float, span_s: float, rng: random.Random) -> list[float]:
    """Return the sorted times, in seconds from the start, at which requests arrive. There is at least one request."""
    times = [rng.expovariate(per_s)]
    while times[-1] < span_s:
        times.append(times[-1] + rng.expovariate(per_s))
    return times[:-1] or times


class Clients:
    """Clients of one gateway, whose times are in the time of the workers."""

    def __init__(self, url: str, client: httpx.AsyncClient, speed: float) -> None:
        self._url = url
        self._client = client
        self._speed = speed

    async def ask(self, asked: dict[str, Any]) -> Answer:
        """Send one request and wait for the end of its answer. Raises ``RuntimeError`` if the answer is incomplete."""
        begun = time.monotonic()
        times: list[float] = []
        async with self._client.stream("POST", f"{self._url}/v1/completions", json=asked) as reply:
            reply.raise_for_status()
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    if "error" in json.loads(line.removeprefix("data: ")):
                        raise RuntimeError("a request failed")
                    times.append(time.monotonic())
        if len(times) < 2:
            raise RuntimeError("an answer had less than two tokens")
        gaps = [(after - before) * self._speed for before, after in itertools.pairwise(times)]
        return Answer((times[0] - begun) * self._speed, gaps)

    async def come(self, bodies: Sequence[dict[str, Any]], times_s: Sequence[float]) -> list[Answer]:
        """Send each of *bodies* at its time, without waiting for earlier requests."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            asked = []
            for at_s, each in zip(times_s, bodies, strict=True):
                await asyncio.sleep(max(0.0, begun + at_s / self._speed - time.monotonic()))
                asked.append(tasks.create_task(self.ask(each)))
        return [task.result() for task in asked]


@contextmanager
def serving(options: argparse.Namespace, *, divided: bool) -> Iterator[str]:
    """Yield the URL of a gateway with new workers."""
    speed: float = options.speed
    roles = ["prefill"] * options.prefill + ["decode"] * options.decode
    with Processes() as processes:
        workers = []
        for i, role in enumerate(roles):
            flags = ["--blocks", str(options.blocks), "--speed", f"{speed:g}", "--tpot-ms", f"{TPOT_MS:g}"]
            flags += ["--prefill-tokens-per-s", f"{PREFILL_TOKENS_PER_S:g}"]
            flags += ["--transfer-us-per-token", f"{TRANSFER_US_PER_TOKEN:g}"]
            flags += ["--role", role] if divided else []
            command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", *flags]
            workers.append((processes.start(f"worker{i}", command), role))
        model: dict[str, Any] = {
            "name": "tiny",
            "strategy": "prefix_aware",
            "workers": [
                {"url": worker.wait_for_ready_line()} | ({"role": role} if divided else {}) for worker, role in workers
            ],
        }
        if divided:
            model["disaggregation"] = {"flow": "nixl"}
        settings = {
            "server": {"port": free_port()},
            "models": [model],
            "routing": {"initial_prefill_tokens_per_s": 2000.0 * speed},
        }
        yield start_gateway(processes, settings)[1]


async def measured(options: argparse.Namespace, prompt_tokens: int, *, divided: bool) -> Summary:
    """Measure one set-up with prompts of one length."""
    per_s = options.load * options.prefill * PREFILL_TOKENS_PER_S / prompt_tokens
    times_s = arrivals(per_s, options.seconds * options.speed, random.Random(options.seed))
    bodies = [body(number, prompt_tokens, options.output_tokens) for number in range(len(times_s) + WARM_UP)]
    with serving(options, divided=divided) as url:
        async with httpx.AsyncClient(timeout=600, verify=False, limits=httpx.Limits(max_connections=None)) as client:
            clients = Clients(url, client, options.speed)
            for each in bodies[:WARM_UP]:
                await clients.ask(each | {"max_tokens": WARM_UP_TOKENS})
            before = remote_prefills((await client.get(f"{url}/metrics")).text)
            answers = await clients.come(bodies[WARM_UP:], times_s)
            remote = remote_prefills((await client.get(f"{url}/metrics")).text) - before
    return Summary.of("divided" if divided else "whole", prompt_tokens, answers, remote)


def remote_prefills(exposition: str) -> int:
    """Return the number of prompts that prefill workers computed, from the gateway's metrics."""
    lines = [line for line in exposition.splitlines() if line.startswith("warmgate_prefills_total{")]
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'location="remote"' in line))


async def run(options: argparse.Namespace) -> Report:
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES)
    report = Report("disaggregation", "Prefill apart from decode, and on the same workers", circumstances)
    pairs = []
    for prompt_tokens in options.prompt_tokens:
        whole = await measured(options, prompt_tokens, divided=False)
        divided = await measured(options, prompt_tokens, divided=True)
        print(whole, divided, sep="\n", file=sys.stderr)
        pairs.append((whole, divided))
    tell(report, pairs, options)
    return report


def tell(report: Report, pairs: Sequence[tuple[Summary, Summary]], options: argparse.Namespace) -> None:
    report.bars = [
        Bar(
            f"{whole.prompt_tokens} tokens: TPOT p99, share of that of workers that do both",
            divided.tpot_p99_s / whole.tpot_p99_s,
            "<",
            1.0,
        )
        for whole, divided in pairs
        if whole.prompt_tokens >= LONG_TOKENS
    ]
    report.tables = [
        Table(
            "Seconds of the workers",
            (
                *("prompt tokens", "workers", "requests", "remote prefills", "TTFT p50", "p90", "p99"),
                *("TPOT p50", "p99", "pause p99"),
            ),
            [
                (
                    *(each.prompt_tokens, _workers(each, options), each.requests, each.remote),
                    *(each.ttft_p50_s, each.ttft_p90_s, each.ttft_p99_s),
                    *(each.tpot_p50_s, each.tpot_p99_s, each.gap_p99_s),
                )
                for pair in pairs
                for each in pair
            ],
        ),
        Table(
            "Divided, as a share of whole",
            ("prompt tokens", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "pause p99"),
            [
                (
                    whole.prompt_tokens,
                    divided.ttft_p50_s / whole.ttft_p50_s,
                    divided.ttft_p99_s / whole.ttft_p99_s,
                    divided.tpot_p50_s / whole.tpot_p50_s,
                    divided.tpot_p99_s / whole.tpot_p99_s,
                    divided.gap_p99_s / whole.gap_p99_s,
                )
                for whole, divided in pairs
            ],
        ),
    ]
    report.notes = [
        f"Simulated workers (chunked, steps of up to 2,048 tokens): {PREFILL_TOKENS_PER_S:g} tokens of prefill a "
        f"second, {TPOT_MS:g} ms a token alone and 0.4 ms more for each other answer, 10 ms for each prefill, "
        f"{TRANSFER_US_PER_TOKEN:g} us to fetch a token's KV, {options.blocks} blocks of 16 tokens.",
        f"Answers of {options.output_tokens} tokens. Requests come at random, for {options.seconds:g} s of the clock, "
        f"at {options.load:g} of what {options.prefill} workers could prefill; at the same times in both set-ups.",
        f"All times are those of the workers, which live {options.speed:g} times as fast as the clock: "
        "what the gateway and the machine take counts as often.",
        "A divided fleet is better at what it protects, the pace of answers, and gives for it: fewer workers compute "
        "prompts, and the hop takes its time. With short prompts, of which more come at the same load, answers want "
        "all the workers, and it gains little.",
    ]
    report.figures = {"pairs": pairs}


def _workers(summary: Summary, options: argparse.Namespace) -> str:
    if summary.setup == "whole":
        return f"{options.prefill + options.decode} that do both"
    return f"{options.prefill} prefill, {options.decode} decode"


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("disaggregation", __doc__)
    parser.add_argument("--prefill", type=int, default=2, help="workers that compute prompts")
    parser.add_argument("--decode", type=int, default=2, help="workers that generate answers")
    parser.add_argument(
        "--prompt-tokens", type=lambda text: [int(each) for each in text.split(",")], default=[2000, 8000, 32_000]
    )
    parser.add_argument("--output-tokens", type=int, default=512)
    parser.add_argument("--load", type=float, default=0.6, help="share of the time that prefill workers are busy")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the clock, for which requests come")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast as the clock the workers live")
    parser.add_argument("--blocks", type=int, default=32_768, help="KV cache of a worker, in blocks of 16 tokens")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse_arguments()
    return conclude(
        "disaggregation", lambda: uvloop.run(run(options)), results=options.results, cannot_run=[ChildFailedError]
    )


if __name__ == "__main__":
    sys.exit(main())
