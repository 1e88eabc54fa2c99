"""Gain of the routing strategies on recorded conversations, with the real gateway over HTTP and simulated workers in
real time.

The conversations of tau-bench (airline) are cut into turns: one request for every recorded answer, with all earlier
messages. A conversation sends its next turn when the previous turn has been answered, and 20 conversations run at a
time. Each strategy has its own gateway and workers with cold caches. Every request names its conversation in the
`x-session-id` header, which only the `session` strategy uses.

The upper bound of the hit rate is that of one unlimited cache, in which each block of an earlier request is a hit.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import gzip
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvloop

from benchmarks.processes import ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import ROOT, Bar, Circumstances, Report, Table, argument_parser, conclude
from routing.strategies import NAMES
from simulator.rendering import render_chat
from simulator.tokens import TokenSequence, block_hashes

TRACE = ROOT / "benchmarks" / "traces" / "tau_airline_conversations.jsonl"
BLOCK_SIZE = 16  # tokens
CHARACTERS_PER_TOKEN = 4
LEAST_OUTPUT_TOKENS, MOST_OUTPUT_TOKENS = 8, 200
SESSION_HEADER = "x-session-id"  # the gateway's default
HIT_BAR, TTFT_P50_BAR, TTFT_P90_BAR = 0.97, 0.6, 0.4
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "httpx", "numpy", "msgspec")

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """Request with the messages so far, and the length of the recorded answer."""

    messages: list[Message]
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    worker: str
    ttft_s: float
    e2e_s: float
    prompt_tokens: int
    cached_tokens: int


def conversations(trace: Path, count: int) -> list[list[Turn]]:
    """Return the turns of the first *count* conversations of *trace*, a plain or gzipped file."""
    with gzip.open(trace, "rt") if trace.suffix == ".gz" else trace.open() as lines:
        recorded = [json.loads(line)["messages"] for line in lines][:count]
    return [
        [
            Turn(messages[:i], _output_tokens(message))
            for i, message in enumerate(messages)
            if message["role"] == "assistant" and i
        ]
        for messages in recorded
    ]


def _output_tokens(message: Message) -> int:
    said = len(json.dumps(message.get("content") or message.get("tool_calls")))
    return max(LEAST_OUTPUT_TOKENS, min(MOST_OUTPUT_TOKENS, said // CHARACTERS_PER_TOKEN))


def infinite_cache_hit_rate(talks: Sequence[Sequence[Turn]]) -> float:
    """Return the share of all prompt tokens that one unlimited cache would hold, in any order of the conversations."""
    seen: set[int] = set()
    hit = total = 0
    for turn in (turn for talk in talks for turn in talk):
        tokens = TokenSequence.from_text(render_chat(turn.messages))
        hashes = block_hashes(tokens, block_size=BLOCK_SIZE, scope=())
        leading = next((i for i, block in enumerate(hashes) if block not in seen), len(hashes))
        # An engine computes at least the last token of a prompt.
        hit += min(leading, (len(tokens) - 1) // BLOCK_SIZE) * BLOCK_SIZE
        total += len(tokens)
        seen.update(hashes)
    return hit / total


@dataclass
class Replay:
    """Replay of the conversations with one strategy."""

    url: str
    client: httpx.AsyncClient
    answers: list[Answer]

    async def run(self, talks: Sequence[Sequence[Turn]], *, in_flight: int) -> None:
        """Send all turns of all conversations, with *in_flight* conversations at a time."""
        pending = enumerate(talks)

        async def talk_on() -> None:
            for number, talk in pending:
                for turn in talk:
                    self.answers.append(await self._ask(turn, session=f"conversation-{number}"))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(in_flight):
                tasks.create_task(talk_on())

    async def _ask(self, turn: Turn, *, session: str) -> Answer:
        body = {
            "model": "tiny",
            "messages": turn.messages,
            "max_tokens": turn.output_tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        url, headers = f"{self.url}/v1/chat/completions", {SESSION_HEADER: session}
        begun = time.monotonic()
        first = usage = None
        async with self.client.stream("POST", url, json=body, headers=headers) as reply:
            reply.raise_for_status()
            async for line in reply.aiter_lines():
                first = first or (time.monotonic() if line else None)
                if '"usage":{' in line:
                    usage = json.loads(line.removeprefix("data: "))["usage"]
        if first is None or usage is None:
            raise RuntimeError("an answer had no usage")
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        worker = reply.headers["x-warmgate-worker"]
        return Answer(worker, first - begun, time.monotonic() - begun, usage["prompt_tokens"], cached)


@contextmanager
def serving(strategy: str, options: argparse.Namespace) -> Iterator[str]:
    """Yield the URL of a gateway with *strategy* and new workers."""
    with Processes() as processes:
        workers = []
        for i in range(options.workers):
            flags = ["--blocks", str(options.blocks), "--prefill-tokens-per-s", str(options.prefill_tokens_per_s)]
            command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--timing", options.timing, *flags]
            workers.append(processes.start(f"worker{i}", command))
        settings = {
            "server": {"port": free_port()},
            "models": [
                {
                    "name": "tiny",
                    "strategy": strategy,
                    "workers": [{"url": worker.wait_for_ready_line()} for worker in workers],
                }
            ],
        }
        yield start_gateway(processes, settings)[1]


async def replay(strategy: str, talks: Sequence[Sequence[Turn]], options: argparse.Namespace) -> list[Answer]:
    with serving(strategy, options) as url:
        async with httpx.AsyncClient(timeout=120, verify=False, limits=httpx.Limits(max_connections=None)) as client:
            run = Replay(url, client, [])
            await run.run(talks, in_flight=options.in_flight)
            return run.answers


@dataclass(frozen=True, slots=True)
class Summary:
    """Result of one strategy."""

    strategy: str
    requests: int
    hit_rate: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    e2e_p50_s: float
    busiest_share: float
    """Share of all requests that the busiest worker received."""
    took_s: float

    @classmethod
    def of(cls, strategy: str, answers: Sequence[Answer], took_s: float) -> "Summary":
        ttft = sorted(answer.ttft_s for answer in answers)
        e2e = sorted(answer.e2e_s for answer in answers)
        busiest = Counter(answer.worker for answer in answers).most_common(1)[0][1]
        return cls(
            strategy,
            len(answers),
            sum(answer.cached_tokens for answer in answers) / sum(answer.prompt_tokens for answer in answers),
            _percentile(ttft, 50),
            _percentile(ttft, 90),
            _percentile(ttft, 99),
            _percentile(e2e, 50),
            busiest / len(answers),
            took_s,
        )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


async def run(options: argparse.Namespace) -> Report:
    report = Report(
        "live", "Strategies on recorded conversations", Circumstances.observe(seed=options.seed, packages=PACKAGES)
    )
    talks = conversations(options.trace, options.conversations)
    random.Random(options.seed).shuffle(talks)
    bound = infinite_cache_hit_rate(talks)
    summaries = []
    for strategy in options.strategies:
        begun = time.monotonic()
        answers = await replay(strategy, talks, options)
        summaries.append(Summary.of(strategy, answers, time.monotonic() - begun))
        print(summaries[-1], file=sys.stderr)
    _tell(report, summaries, bound, options)
    return report


def _tell(report: Report, summaries: Sequence[Summary], bound: float, options: argparse.Namespace) -> None:
    by_name = {summary.strategy: summary for summary in summaries}
    if {"prefix_aware", "round_robin"} <= set(by_name):
        ours, turns = by_name["prefix_aware"], by_name["round_robin"]
        report.bars = [
            Bar("prefix_aware's hit rate, share of the bound", ours.hit_rate / bound, ">=", HIT_BAR),
            Bar(
                "prefix_aware: TTFT p50, share of round_robin's", ours.ttft_p50_s / turns.ttft_p50_s, "<=", TTFT_P50_BAR
            ),
            Bar(
                "prefix_aware: TTFT p90, share of round_robin's", ours.ttft_p90_s / turns.ttft_p90_s, "<=", TTFT_P90_BAR
            ),
        ]
    rows = [
        (
            summary.strategy,
            summary.requests,
            f"{summary.hit_rate:.1%}",
            summary.hit_rate / bound,
            summary.ttft_p50_s,
            summary.ttft_p90_s,
            summary.ttft_p99_s,
            summary.e2e_p50_s,
            f"{summary.busiest_share:.0%}",
            summary.took_s,
        )
        for summary in summaries
    ]
    columns = (
        *("strategy", "requests", "hit rate", "of the bound", "TTFT p50 s", "p90 s", "p99 s"),
        *("E2E p50 s", "busiest worker", "took s"),
    )
    report.tables = [Table(f"{options.conversations} conversations, {options.in_flight} in flight", columns, rows)]
    report.notes = [
        f"{options.workers} simulated workers ({options.timing}), {options.blocks} blocks of {BLOCK_SIZE} tokens and "
        f"{options.prefill_tokens_per_s:g} tokens of prefill per second each.",
        "Hit rate: cached share of all prompt tokens, as the workers report it. "
        f"Bound: {bound:.1%}, one boundless cache for all.",
        f"Every request names its conversation in `{SESSION_HEADER}`: `session` goes by it, no other strategy does.",
    ]
    report.figures = {"bound": bound, "summaries": summaries}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("live", __doc__)
    parser.add_argument("--trace", type=Path, default=TRACE, help="conversations in OpenAI's form, .jsonl or .jsonl.gz")
    parser.add_argument("--conversations", type=int, default=100)
    parser.add_argument("--in-flight", type=int, default=20)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=3072)
    parser.add_argument("--prefill-tokens-per-s", type=float, default=2000.0)
    parser.add_argument("--timing", choices=("chunked", "fifo"), default="chunked")
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=list(NAMES))
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    return conclude(
        "live", lambda: uvloop.run(run(arguments)), results=arguments.results, cannot_run=[ChildFailedError]
    )


if __name__ == "__main__":
    sys.exit(main())
