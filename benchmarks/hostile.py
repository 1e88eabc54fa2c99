"""Effects of hostile requests on other callers: expensive bodies, many of them at once, and values that stay in memory.

1. Each shape of `hostile_shapes`, at the size limit of a body, one at a time: how long the body blocks the event loop,
   and how much memory the gateway and its processes need.
2. Streams of other callers, with and without clients that send such bodies continuously: how late events arrive.
3. Requests with a session and a user of a megabyte each: how much memory they occupy afterwards.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import uvloop

from benchmarks.hostile_shapes import SHAPES
from benchmarks.processes import Child, ChildFailedError, Processes, settings_before, start_gateway, start_stub_worker
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude
from benchmarks.watched_gateway import PATH, Turns

LIMIT_BYTES = 8 * 2**20
HOLD_MS = 5.0
FACTOR = 8.0
LATER_MS = 20.0
KEPT_MB = 16.0
STREAMS, CLIENTS = 50, 20
EVENT_MS = 50
LONG_NAMES = 150
SETTLE_S = 0.3
ATTACK_S = 3.0  # before the streams begin: the attackers make their bodies, and the processes that decode start
POLL_S = 0.005
STREAM = b'{"model":"calm","stream":true,"max_tokens":64,"messages":[{"role":"user","content":"%d"}]}'
PACKAGES = ("uvicorn", "uvloop", "httptools", "numpy", "msgspec")


@dataclass(frozen=True, slots=True)
class Case:
    """Effects of one body."""

    name: str
    status: int
    took_ms: float
    turns: Turns
    grown_bytes: int


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays between consecutive events of the same stream, in milliseconds."""

    p50: float
    p99: float
    longest: float
    events: int


async def at_limit(gateway: Child, url: str, client: httpx.AsyncClient, *, size: int) -> list[Case]:
    """Measure each shape of body at *size* bytes, one at a time."""
    for shape in list(SHAPES.values())[:2]:  # the processes that decode are started, and stay
        await asyncio.gather(*[_post(client, url, shape.path, shape.make(size), shape.media) for _ in range(4)])
    cases = []
    for name, shape in SHAPES.items():
        body = shape.make(size)
        await asyncio.sleep(SETTLE_S)
        await _turns(client, url)
        before, began = gateway.rss_bytes(), time.monotonic()
        answering = asyncio.ensure_future(_post(client, url, shape.path, body, shape.media))
        most = before
        while not answering.done():
            most = max(most, await asyncio.to_thread(gateway.rss_bytes))
            await asyncio.sleep(POLL_S)
        took_ms = (time.monotonic() - began) * 1e3
        case = Case(name, answering.result(), took_ms, await _turns(client, url), most - before)
        print(f"{name}: {case.status}, {case.turns.longest_cpu_ms:.1f} ms", file=sys.stderr, flush=True)
        cases.append(case)
    return cases


async def beside(url: str) -> Delays:
    """Return the delays of `STREAMS` streams of a model that gets no other requests."""
    gaps = await asyncio.gather(*[_gaps(url, number) for number in range(STREAMS)])
    every = sorted(gap for each in gaps for gap in each)
    return Delays(every[len(every) // 2], every[int(len(every) * 0.99)], every[-1], len(every))


async def attack(url: str, *, size: int) -> None:
    """Send hostile bodies of *size* bytes from `CLIENTS` clients until cancelled, and return how each was answered."""
    bodies = [(shape.path, shape.make(size), shape.media) for shape in SHAPES.values()]

    async def client_from(first: int) -> None:
        for number in itertools.count(first):
            path, body, media = bodies[number % len(bodies)]
            print(await _post(client, url, path, body, media), flush=True)

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=120.0, limits=limits) as client, asyncio.TaskGroup() as tasks:
        print(f"ready: {url}", flush=True)
        for number in range(CLIENTS):
            tasks.create_task(client_from(number))


async def long_names(gateway: Child, url: str, client: httpx.AsyncClient) -> int:
    """Return the bytes by which the gateway has grown after `LONG_NAMES` sessions and users of a megabyte each."""
    await _post(client, url, "/v1/chat/completions", _named(0), "application/json")
    before = gateway.rss_bytes()
    for number in range(1, LONG_NAMES + 1):
        await _post(client, url, "/v1/chat/completions", _named(number), "application/json")
    await asyncio.sleep(SETTLE_S)
    return gateway.rss_bytes() - before


async def run(arguments: argparse.Namespace) -> Report:
    report = Report(
        "hostile",
        "What hostile callers do to others",
        Circumstances.observe(seed=arguments.seed, packages=PACKAGES),
    )
    watched = (sys.executable, "-m", "benchmarks.watched_gateway")
    with Processes() as processes:
        _, worker = start_stub_worker(processes)
        _, calm = start_stub_worker(processes, "--model", "calm", "--event-ms", str(EVENT_MS), name="calm")
        async with httpx.AsyncClient(timeout=120.0) as client:
            gateway, url = start_gateway(processes, _settings(worker, calm), command=watched)
            cases = await at_limit(gateway, url, client, size=arguments.size)
            gateway.stop()
            gateway, url = start_gateway(processes, _settings(worker, calm), name="unwatched")
            kept = await long_names(gateway, url, client)
            alone = await beside(url)
            command = [sys.executable, "-m", "benchmarks.hostile", "--attack", url, "--size", str(arguments.size)]
            attackers = processes.start("attackers", ["nice", "-n", "19", *command])
            attackers.wait_for_ready_line()
            await asyncio.sleep(ATTACK_S)
            attacked = await beside(url)
            attackers.stop()
            statuses = Counter(int(line) for line in attackers.stdout.read_text().split() if line.isdigit())
            gateway.stop()
    tell(report, cases, alone, attacked, statuses, kept_bytes=kept, size=arguments.size)
    return report


def tell(
    report: Report,
    cases: Sequence[Case],
    alone: Delays,
    attacked: Delays,
    statuses: Counter[int],
    *,
    kept_bytes: int,
    size: int,
) -> None:
    """Write the targets and tables."""
    slowest = max(cases, key=lambda case: case.turns.longest_cpu_ms)
    largest = max(cases, key=lambda case: case.grown_bytes)
    report.bars += [
        Bar(
            f"longest hold of the loop, ms of processor time ({slowest.name})",
            slowest.turns.longest_cpu_ms,
            "<=",
            HOLD_MS,
        ),
        Bar("longest hold, ms by the clock", max(case.turns.longest_ms for case in cases), "<=", HOLD_MS),
        Bar(f"memory as a multiple of the body ({largest.name})", largest.grown_bytes / size, "<=", FACTOR),
        Bar("p99 of events beside hostile clients, ms later than without", attacked.p99 - alone.p99, "<=", LATER_MS),
        Bar(f"MB that stay of {LONG_NAMES} sessions and users of 1 MB", kept_bytes / 1e6, "<=", KEPT_MB),
    ]
    report.tables += [
        Table(
            f"Bodies of {size / 2**20:g} MiB, one at a time",
            ("shape", "answer", "ms", "longest hold, CPU ms", "by the clock", "memory / size"),
            [
                (
                    *(case.name, case.status, case.took_ms, case.turns.longest_cpu_ms, case.turns.longest_ms),
                    case.grown_bytes / size,
                )
                for case in cases
            ],
        ),
        Table(
            f"Time between two events of {STREAMS} streams, of which each has one in {EVENT_MS} ms",
            ("beside", "p50, ms", "p99, ms", "longest, ms", "hostile requests"),
            [
                ("nobody", alone.p50, alone.p99, alone.longest, None),
                (f"{CLIENTS} hostile clients", attacked.p50, attacked.p99, attacked.longest, statuses.total()),
            ],
        ),
    ]
    report.notes += [
        "The limit is the default of `server.max_body_bytes`. Memory is that of the gateway and the processes that "
        "decode for it, at its most while the body was served, less what it was before.",
        f"Answers to the hostile clients: {_listed(statuses)}. They run on the same machine, but at the lowest "
        "priority: the processor time that they take to make and send bodies is not the gateway's. The clients of the "
        "streams and the workers are processes of their own, at the same priority as the gateway.",
    ]
    report.figures |= {"cases": list(cases), "alone": alone, "attacked": attacked, "kept_bytes": kept_bytes}


def _settings(worker: str, calm: str) -> dict[str, Any]:
    """Return the settings of a gateway with two models that have one worker each."""
    settings = settings_before(worker)
    hostile = {**settings["models"][0], "aliases": ["gpt-4o"]}
    return {**settings, "models": [hostile, {"name": "calm", "workers": [{"url": calm}]}]}


def _listed(statuses: Counter[int]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))


def _named(number: int) -> bytes:
    name = b"%07d" % number + b"n" * 2**20
    head = b'{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"."}],'
    return head + b'"prompt_cache_key":"%b","user":"%b"}' % (name, name)


async def _post(client: httpx.AsyncClient, url: str, path: str, body: bytes, media: str) -> int:
    try:
        return (await client.post(url + path, content=body, headers={"content-type": media})).status_code
    except httpx.HTTPError:
        return 0  # the gateway closed the connection


async def _turns(client: httpx.AsyncClient, url: str) -> Turns:
    return msgspec.json.decode((await client.get(url + PATH)).content, type=Turns)


async def _gaps(url: str, number: int) -> list[float]:
    """Return the milliseconds between the events of one stream.

    Raises:
        ChildFailedError: if the stream is incomplete.
    """
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = STREAM % number
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    writer.write(head.encode() + b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    times: list[float] = []
    whole = b""
    while data := await reader.read(65_536):
        times.append(time.monotonic())
        whole += data
    writer.close()
    if b"[DONE]" not in whole:
        raise ChildFailedError(f"a stream was not complete: {whole[-200:]!r}")
    return [(after - before) * 1e3 for before, after in itertools.pairwise(times[1:])]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("hostile", __doc__)
    parser.add_argument("--attack", metavar="URL", help="only send hostile bodies to this gateway, until stopped")
    parser.add_argument("--size", type=int, default=LIMIT_BYTES, help="bytes of each hostile body")
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    if arguments.attack:
        uvloop.run(attack(arguments.attack, size=arguments.size))
    return conclude(
        "hostile", lambda: uvloop.run(run(arguments)), results=arguments.results, cannot_run=[ChildFailedError]
    )


if __name__ == "__main__":
    sys.exit(main())
