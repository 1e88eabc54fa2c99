"""Longest turns of the gateway's event loop, caused by long prompts, KV events, eviction and garbage collection.

The real gateway runs with a watch over its event loop (`watched_gateway`). The cases run one after the other, with one
request at a time, so that a turn of the loop contains the work of one request. The first case is an idle gateway, which
shows the effects of the machine.

Turns are measured by the clock and by the processor time of the loop's thread. The clock includes the load of the
machine. Processor time does not include waiting for a thread that holds Python's lock.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import json
import os
import random
import re
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import uvloop

from benchmarks.bench import two_cores
from benchmarks.memory import http_request, send_all
from benchmarks.peers.dynamo.caches import Announcement, Caches
from benchmarks.peers.dynamo.publisher import NobodyListensError, Publisher
from benchmarks.peers.dynamo.vllm_events import stored
from benchmarks.processes import ROOT, ChildFailedError, Processes, free_port, pinned, start_gateway, start_stub_worker
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude
from benchmarks.shipped import build
from benchmarks.tokenizing import CHATML, MARKS, recorded, trained
from benchmarks.watched_gateway import LONG_MS, PATH, Turns

FLOOD_BLOCKS = 500_000
FLOOD_WORKERS = 4
EVENTS_PER_BATCH = 8  # as many requests end their prefill in one step of an engine
INDEX_BYTES = 4 * 2**20  # so little that the prompts of a run exceed it several times
LISTEN_TIMEOUT_S = 20.0
TAKE_IN_S = 15.0  # asking whether it has, by a scrape, would hold the loop itself
KNOWN = r'warmgate_exact_prompts_total\{.*outcome="exact"'
TAKEN_IN = r'warmgate_kv_blocks_total\{.*kind="stored"'
IDLE = "idle"
HUGE = "2 MB in one message"
SCRAPES = 20
IDLE_S = 3.0
WARM_UP_REQUESTS = 50
FLOOD_REQUESTS = 2_000
PACKAGES = ("uvicorn", "uvloop", "httptools", "numpy", "msgspec", "tokenizers", "jinja2", "pyzmq")


@dataclass(frozen=True, slots=True)
class Case:
    """Case that the gateway is measured with."""

    name: str
    turns: Turns
    requests: int = 0
    ms_per_request: float | None = None

    @property
    def is_judged(self) -> bool:
        """Whether a target applies. Idle time depends on the machine, and a long prompt is hashed in one step."""
        return self.name != IDLE and not self.name.startswith(HUGE)


# ---- prompts


class Talk:
    """Chat bodies of any size from recorded conversations, with different first messages."""

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        self._texts = texts
        self._rng = random.Random(seed)
        self._number = 0

    def conversation(self, size: int) -> bytes:
        """Return a request of about *size* bytes, in many messages."""
        messages: list[dict[str, str]] = []
        left = size
        while left > 0:
            text = self._next_text()
            messages.append({"role": "assistant" if len(messages) % 2 else "user", "content": text})
            left -= len(text) + 40
        return self._request(messages)

    def document(self, size: int) -> bytes:
        """Return a request of about *size* bytes, in one message."""
        pieces: list[str] = []
        left = size
        while left > 0:
            pieces.append(self._next_text())
            left -= len(pieces[-1]) + 1
        return self._request([{"role": "user", "content": "\n".join(pieces)}])

    def _next_text(self) -> str:
        self._number += 1
        return f"{self._number} {self._rng.choice(self._texts)}"

    def _request(self, messages: list[dict[str, str]]) -> bytes:
        body = {"model": "tiny", "max_tokens": 1, "messages": messages}
        return http_request(json.dumps(body, ensure_ascii=False).encode())


def write_tokenizer(folder: Path, texts: Sequence[str]) -> None:
    """Write a model folder with a byte-level BPE tokenizer trained on *texts*, and the ChatML template."""
    folder.mkdir()
    trained(iter(texts)).save(str(folder / "tokenizer.json"))
    marks = dict.fromkeys(MARKS)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHATML, "eos_token": [*marks][-1]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


# ---- events


def flood_of(seed: int, *, blocks: int = FLOOD_BLOCKS) -> dict[int, list[bytes]]:
    """Return the batches of `FLOOD_WORKERS` engines that report *blocks* blocks."""
    steps: dict[int, list[list[Announcement]]] = {worker: [[]] for worker in range(FLOOD_WORKERS)}
    for announcement in Caches(seed, workers=FLOOD_WORKERS, systems=16).fill(blocks):
        own = steps[announcement.worker]
        if len(own[-1]) == EVENTS_PER_BATCH:
            own.append([])
        own[-1].append(announcement)
    return {worker: [stored(step) for step in own if step] for worker, own in steps.items()}


# ---- the run


class Bench:
    """Gateway whose event loop is watched."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        self._client = client
        self.cases: list[Case] = []

    async def watch(self, name: str, deed: Callable[[], Awaitable[int]]) -> Case:
        """Run *deed*, which returns its number of requests, and record the turns of the loop meanwhile."""
        await self._turns()
        began = time.monotonic()
        requests = await deed()
        took_ms = (time.monotonic() - began) * 1e3
        case = Case(name, await self._turns(), requests, took_ms / requests if requests else None)
        self.cases.append(case)
        print(
            f"{name}: longest turn {case.turns.longest_cpu_ms:.2f} ms, {case.turns.longest_ms:.2f} by the clock",
            file=sys.stderr,
            flush=True,
        )
        return case

    async def ask(self, requests: Sequence[bytes]) -> int:
        """Send *requests* one after the other.

        Raises:
            ChildFailedError: if an answer does not have status 200.
        """
        statuses = await send_all(self.url, iter(requests), connections=1)
        if statuses[200] != len(requests):
            raise ChildFailedError(f"answers: {dict(statuses)}")
        return len(requests)

    async def metric(self, labelled: str) -> float:
        """Return the sum of all metric lines of the gateway that *labelled* matches."""
        lines = (await self._client.get(f"{self.url}/metrics")).text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(labelled, line))

    async def _turns(self) -> Turns:
        answer = await self._client.get(self.url + PATH)
        return msgspec.json.decode(answer.content, type=Turns)


async def idle() -> int:
    await asyncio.sleep(IDLE_S)
    return 0


async def long_prompts(bench: Bench, talk: Talk, *, tokens: str, rounds: int) -> None:
    """Measure small, long and huge prompts. *tokens* names the source of tokens for the name of the case."""
    for name, make, size, requests in (
        ("1.2 kB", talk.conversation, 1_200, 20 * rounds),
        ("220 kB in many messages", talk.conversation, 220_000, 4 * rounds),
        ("220 kB in one message", talk.document, 220_000, 4 * rounds),
        (HUGE, talk.document, 2_000_000, rounds),
    ):
        prompts = [make(size) for _ in range(requests)]
        await bench.watch(f"{name}, {tokens}", lambda prompts=prompts: bench.ask(prompts))  # type: ignore[misc]


async def flood(
    bench: Bench, publisher: Publisher, batches: Mapping[int, Sequence[bytes]], prompts: Sequence[bytes]
) -> None:
    """Publish KV events as fast as the gateway reads them, while small requests arrive.

    Raises:
        ChildFailedError: if the gateway does not subscribe or process all events in `TAKE_IN_S`.
    """

    async def deed() -> int:
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(bench.ask(prompts))
            try:
                await asyncio.to_thread(publisher.publish, batches, timeout_s=LISTEN_TIMEOUT_S)
            except NobodyListensError as error:
                raise ChildFailedError(str(error)) from error
            await asyncio.sleep(TAKE_IN_S)
            return await asking

    await bench.watch(f"KV events of {FLOOD_BLOCKS:,} blocks", deed)
    if await bench.metric(TAKEN_IN) < FLOOD_BLOCKS:
        raise ChildFailedError("the KV events were not taken in")


async def scrapes(bench: Bench) -> None:
    """Measure reading the metrics, with all metrics present."""

    async def deed() -> int:
        for _ in range(SCRAPES):
            await bench.metric(TAKEN_IN)
        return SCRAPES

    await bench.watch("scrapes of the metrics", deed)


def settings_of(folder: Path, worker_urls: Sequence[str], ports: Sequence[int], *, port: int) -> dict[str, Any]:
    """Return settings for workers whose engines publish at *ports*. The gateway's tokenizer is in *folder*."""
    workers = [
        {"url": url, "kv_events": {"endpoint": f"tcp://127.0.0.1:{port}"}}
        for url, port in zip(worker_urls, ports, strict=True)
    ]
    tokenizer = {"source": "local", "path": str(folder), "budget_s": 5.0}
    return {
        "server": {"host": "127.0.0.1", "port": port},
        "index": {"max_bytes": INDEX_BYTES, "default_worker_blocks": 10**6},
        "kv_events": {"check": False},
        "models": [{"name": "tiny", "strategy": "kv_aware", "workers": workers, "tokenizer": tokenizer}],
    }


async def run(arguments: argparse.Namespace) -> Report:
    """Run all cases one after the other, and return the report."""
    proxy_core, load_core = two_cores()
    report = Report(
        "stalls",
        "What holds the event loop, and for how long",
        Circumstances.observe(seed=arguments.seed, packages=PACKAGES),
    )
    texts = [str(message["content"]) for message in recorded()]
    talk = Talk(texts, arguments.seed)
    print("making up KV events", file=sys.stderr, flush=True)
    batches = flood_of(arguments.seed)
    with Processes() as processes, pinned({load_core}), Publisher(FLOOD_WORKERS) as publisher:
        folder = processes.directory / "model"
        write_tokenizer(folder, texts)
        urls = [
            start_stub_worker(processes, name=f"stub-{number}", cores={load_core})[1] for number in range(FLOOD_WORKERS)
        ]
        settings = settings_of(folder, urls, publisher.ports, port=free_port())
        command, environment = gateway_command(arguments)
        gateway, url = start_gateway(processes, settings, command=command, environment=environment, cores={proxy_core})
        async with httpx.AsyncClient(timeout=60.0) as client:
            bench = Bench(url, client)
            await bench.ask([talk.conversation(1_200) for _ in range(WARM_UP_REQUESTS)])
            await bench.watch(IDLE, idle)
            await long_prompts(bench, talk, tokens="by text", rounds=arguments.rounds)
            await flood(bench, publisher, batches, [talk.conversation(1_200) for _ in range(FLOOD_REQUESTS)])
            await long_prompts(bench, talk, tokens="by tokens", rounds=arguments.rounds)
            await scrapes(bench)
            known = await bench.metric(KNOWN)
        gateway.stop()
    tell(report, bench.cases, exact=known)
    return report


def gateway_command(arguments: argparse.Namespace) -> tuple[Sequence[str], Mapping[str, str] | None]:
    """Return the command of the watched gateway, compiled or from the sources, and its environment."""
    module = "benchmarks.watched_gateway"
    if arguments.sources:
        return (sys.executable, "-m", module), None
    shipped = build().directory
    # -P: what is shipped comes before the checkout, which has to be named for the benchmark's own modules.
    return (sys.executable, "-P", "-m", module), {"PYTHONPATH": os.pathsep.join([str(shipped), str(ROOT)])}


def tell(report: Report, cases: Sequence[Case], *, exact: float) -> None:
    """Write targets and a table. *exact* is the number of prompts whose tokens the gateway knew."""
    judged = [case for case in cases if case.is_judged]
    worst = max(judged, key=lambda case: case.turns.longest_cpu_ms)
    by_tokens = sum(case.requests for case in cases if case.name.endswith("by tokens"))
    report.bars += [
        Bar(
            f"longest turn of the loop, ms of processor time ({worst.name})", worst.turns.longest_cpu_ms, "<=", LONG_MS
        ),
        Bar("longest turn, ms by the clock", max(case.turns.longest_ms for case in judged), "<=", LONG_MS),
        Bar("prompts by tokens of which the tokens were known", exact, ">=", by_tokens),
    ]
    rows = [
        (
            case.name,
            case.requests or None,
            case.ms_per_request,
            case.turns.longest_cpu_ms,
            case.turns.longest_ms,
            case.turns.long,
            case.turns.turns,
            case.turns.longest_collection_ms if case.turns.collections else None,
        )
        for case in cases
    ]
    columns = ("", "requests", "ms each", "longest turn, CPU ms", "by the clock", f"{LONG_MS:g} ms or more")
    report.tables.append(Table("Turns of the loop", (*columns, "turns", "longest collection, ms"), rows))
    report.notes += [
        "One request at a time, none of whose prompts begins as another. `kv_aware`; by text: no engine has told of "
        "its cache yet, so nobody asks for exact tokens; by tokens: the model's tokenizer makes them in the gateway. "
        f"The index of text may have {INDEX_BYTES // 2**20} MiB, so that it evicts all the time.",
        f"No bar is held against {IDLE} and {HUGE}: the prompt is hashed in one step.",
        "The clock also sees other processes that take the core, and waiting for a thread that has Python's lock.",
    ]
    report.figures["cases"] = list(cases)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("stalls", __doc__)
    parser.add_argument("--rounds", type=int, default=10, help="2 MB prompts of each kind; of others it is a multiple")
    parser.add_argument("--sources", action="store_true", help="the gateway from the checkout, with nothing compiled")
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    return conclude(
        "stalls", lambda: uvloop.run(run(arguments)), results=arguments.results, cannot_run=[ChildFailedError]
    )


if __name__ == "__main__":
    sys.exit(main())
