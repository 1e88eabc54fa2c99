"""Memory of the gateway after many different prompts, and its gauges after all kinds of endings of requests.

The benchmark has two parts with separate gateways. After many distinct prompts, the index must be within its memory
limit, and the resident memory must not grow. After a mix of answered, streamed, aborted and rejected requests, every
gauge of work in progress must be 0.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import uvloop

from benchmarks.gauges import SETTLE_S, gauges, work_left, work_under_way
from benchmarks.processes import (
    Child,
    ChildFailedError,
    Processes,
    add_gateway_option,
    settings_before,
    start_gateway,
    start_stub_worker,
)
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude

PATH = "/v1/chat/completions"
PROMPT_CHARACTERS = 8_000  # 2,000 tokens at four characters each
TEXT_POOL_CHARACTERS = 1_000_000
SAMPLES = 40  # of memory, evenly over the requests
WARM_UP_SHARE = 0.5
WINDOW_SHARE = 0.1
MAX_GROWTH_SHARE = 0.05
MAX_GROWTH_BYTES = 16 * 2**20
MIN_BUDGET_SHARE = 0.5  # below this peak the index was never near its budget, and the run proves nothing
BOUNDLESS_BLOCKS = 100_000_000  # a worker this large never evicts: only the byte budget can
ANSWER_TIMEOUT_S = 30.0
FIRST_BYTE_MS = 20.0
EVENT_MS = 1.0
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "numpy", "msgspec", "prometheus-client")
MIB = 2**20


# ---- distinct prompts


class Prompts:
    """Chat requests that differ from their first characters on. The same seed gives the same requests. Uses O(1)
    memory.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self._seed = seed
        self._pool = "".join(rng.choices("etaoinshrdlu    ", k=TEXT_POOL_CHARACTERS)).encode()

    def request(self, number: int, *, streams: bool = False) -> bytes:
        """Return request *number* as HTTP bytes."""
        # The number makes a prompt unique; the place in the pool makes it unlike its neighbors. 7919 is a prime.
        start = (number * 7_919 + self._seed) % (TEXT_POOL_CHARACTERS - PROMPT_CHARACTERS)
        text = b"%08d " % number + self._pool[start : start + PROMPT_CHARACTERS - 9]
        end = b',"stream":true}' if streams else b"}"
        return http_request(b'{"model":"tiny","messages":[{"role":"user","content":"%b"}]%b' % (text, end))


def http_request(body: bytes) -> bytes:
    """Return a chat request as HTTP bytes, for a keep-alive connection."""
    head = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n%b" % (len(body), body)


class Client(asyncio.Protocol):
    """Client with one keep-alive connection that sends the next request as soon as an answer is complete.

    To save processor time, the client understands only answers with a ``content-length``.
    """

    def __init__(self, requests: Iterator[bytes], statuses: Counter[int]) -> None:
        self._requests = requests
        self._statuses = statuses
        self._buffer = b""
        self._transport: asyncio.Transport
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like asyncio's
        self._send_next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        length = CONTENT_LENGTH.search(self._buffer, 0, head_end + 2)
        if length is None:
            self._fail(f"an answer without content-length: {self._buffer[:200]!r}")
        elif len(self._buffer) >= head_end + 4 + int(length[1]):
            self._statuses[int(self._buffer[9:12])] += 1
            self._buffer = b""
            self._send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the gateway closed a connection: {exc}")

    def _send_next(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._transport.write(request)
        elif not self.done.done():
            self.done.set_result(None)
            self._transport.close()

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(ChildFailedError(why))


async def send_all(url: str, requests: Iterator[bytes], *, connections: int) -> Counter[int]:
    """Send all *requests* over *connections* connections, and return the number of answers by status.

    Raises:
        ChildFailedError: if a connection was closed, or an answer could not be read.
    """
    loop = asyncio.get_running_loop()
    host, port = address(url)
    statuses: Counter[int] = Counter()
    clients = [
        (await loop.create_connection(lambda: Client(requests, statuses), host, port))[1] for _ in range(connections)
    ]
    await asyncio.gather(*(client.done for client in clients))
    return statuses


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory of the gateway after a number of requests."""

    requests: int
    rss_bytes: int
    index_bytes: int


async def watch_memory(
    gateway: Child, url: str, prompts: Prompts, *, requests: int, connections: int
) -> tuple[list[Sample], Counter[int], float]:
    """Send *requests* distinct prompts. Return memory samples, the statuses of the answers, and the duration in
    seconds.
    """
    samples = [await sample(gateway, url, 0)]
    statuses: Counter[int] = Counter()
    began = time.monotonic()
    for step in range(SAMPLES):
        first, last = requests * step // SAMPLES, requests * (step + 1) // SAMPLES
        pending = (prompts.request(number) for number in range(first, last))
        statuses += await send_all(url, pending, connections=connections)
        samples.append(await sample(gateway, url, last))
    return samples, statuses, time.monotonic() - began


async def sample(gateway: Child, url: str, requests: int) -> Sample:
    """Return one reading of the gateway's memory.

    Raises:
        ChildFailedError: if ``/metrics`` has no ``warmgate_index_bytes``.
    """
    found = [value for name, _, value in await gauges(url) if name == "warmgate_index_bytes"]
    if not found:
        raise ChildFailedError("the gateway's /metrics has no gauge warmgate_index_bytes")
    return Sample(requests, gateway.rss_bytes(), int(sum(found)))


def growth_bytes(samples: Sequence[Sample]) -> tuple[int, int]:
    """Return the growth of resident memory after the warm-up, and its limit.

    The growth is the difference between the highest readings in the first tenth after the warm-up and in the last
    tenth. The highest of several readings is used, because allocators release and reuse memory.
    """
    total = samples[-1].requests
    warm = max(s.rss_bytes for s in samples if WARM_UP_SHARE <= s.requests / total <= WARM_UP_SHARE + WINDOW_SHARE)
    last = max(s.rss_bytes for s in samples if s.requests / total >= 1 - WINDOW_SHARE)
    return last - warm, max(MAX_GROWTH_BYTES, int(warm * MAX_GROWTH_SHARE))


# ---- mixed requests


def _body(**changes: object) -> bytes:
    question = {"role": "user", "content": "How much of this is left behind?"}
    return json.dumps({"model": "tiny", "messages": [question], **changes}).encode()


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _status(connection: Connection, body: bytes) -> str:
    """Send a request, read the answer to its end, and return its status and, for a stream, whether it is complete."""
    reader, writer = connection
    writer.write(http_request(body).replace(b"\r\nhost:", b"\r\nconnection: close\r\nhost:", 1))
    answer = await reader.read(-1)
    status = answer[9:12].decode()
    return f"{status} to [DONE]" if b"data: [DONE]" in answer else status


async def plain(connection: Connection, _: random.Random) -> str:
    return await _status(connection, _body())


async def streamed(connection: Connection, _: random.Random) -> str:
    return await _status(connection, _body(stream=True))


async def unknown_model(connection: Connection, _: random.Random) -> str:
    return await _status(connection, _body(model="not-served-here"))


async def malformed(connection: Connection, rng: random.Random) -> str:
    body = _body()
    return await _status(connection, body[: rng.randrange(1, len(body))])


async def aborted_before_first_byte(connection: Connection, rng: random.Random) -> str:
    connection[1].write(http_request(_body(stream=rng.random() < 0.5)))
    await asyncio.sleep(rng.uniform(0.0, 0.8 * FIRST_BYTE_MS / 1e3))
    return "left"


async def aborted_mid_stream(connection: Connection, rng: random.Random) -> str:
    reader, writer = connection
    writer.write(http_request(_body(stream=True)))
    answer = b""
    events = rng.randrange(1, 60)
    while answer.count(b"data: {") < events:
        piece = await reader.read(65_536)
        if not piece:
            return "cut by the gateway"
        answer += piece
    return "left"


async def half_a_body(connection: Connection, rng: random.Random) -> str:
    request = http_request(_body())
    connection[1].write(request[: len(request) - rng.randrange(1, 60)])
    await asyncio.sleep(rng.uniform(0.0, 0.01))
    return "left"


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of request and of its ending, with its share of the mix and the expected outcome."""

    visit: Callable[[Connection, random.Random], Awaitable[str]]
    per_hundred: int
    outcome: str


KINDS = {
    "answered": Kind(plain, 30, "200"),
    "streamed": Kind(streamed, 30, "200 to [DONE]"),
    "aborted before the first byte": Kind(aborted_before_first_byte, 15, "left"),
    "aborted mid-stream": Kind(aborted_mid_stream, 10, "left"),
    "unknown model": Kind(unknown_model, 7, "404"),
    "malformed JSON": Kind(malformed, 4, "400"),
    "left in the middle of the body": Kind(half_a_body, 4, "left"),
}


@dataclass(slots=True)
class Mix:
    """Outcomes of the mix of requests."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in KINDS})
    peaks: dict[str, float] = field(default_factory=dict)
    """Highest reading of every gauge of work in progress during the load."""
    left: dict[str, float] = field(default_factory=dict)
    """Readings of the same gauges when all were 0, or when the time for that was over."""
    settled_s: float = 0.0

    @property
    def unexpected(self) -> int:
        return sum(
            count for name in KINDS for what, count in self.outcomes[name].items() if what != KINDS[name].outcome
        )


async def send_mix(url: str, *, requests: int, connections: int, seed: int) -> Mix:
    """Send *requests* of all kinds, *connections* at a time, and wait until the gauges are 0."""
    rng = random.Random(seed)
    names = rng.choices(list(KINDS), weights=[kind.per_hundred for kind in KINDS.values()], k=requests)
    pending = iter([(name, random.Random(rng.random())) for name in names])
    mix = Mix()

    async def visit_in_turn() -> None:
        for name, own_rng in pending:
            mix.outcomes[name][await visit(url, KINDS[name], own_rng)] += 1

    async def note_peaks() -> None:
        while True:
            for key, value in (await work_under_way(url)).items():
                mix.peaks[key] = max(value, mix.peaks.get(key, 0.0))
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(note_peaks())
        async with asyncio.TaskGroup() as visitors:
            for _ in range(connections):
                visitors.create_task(visit_in_turn())
        watching.cancel()
    began = time.monotonic()
    mix.left = await work_left(url)
    mix.settled_s = time.monotonic() - began
    return mix


async def visit(url: str, kind: Kind, rng: random.Random) -> str:
    """Send one request on a new connection, close it when the client has read enough, and return the outcome."""
    connection = await asyncio.open_connection(*address(url))
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await kind.visit(connection, rng)
    except TimeoutError:
        return f"nothing within {ANSWER_TIMEOUT_S:g} s"
    except ConnectionError:
        return "cut by the gateway"
    finally:
        connection[1].close()
        with suppress(ConnectionError):
            await connection[1].wait_closed()


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


# ---- the run


async def run_prompts(processes: Processes, arguments: argparse.Namespace, report: Report) -> None:
    """Run the first part, which measures memory with distinct prompts."""
    _, worker_url = start_stub_worker(processes, "--blocks", str(BOUNDLESS_BLOCKS), name="stub-prompts")
    gateway, url = _start_gateway(processes, arguments, worker_url, name="gateway-prompts")
    print(f"sending {arguments.requests:,} distinct prompts", file=sys.stderr, flush=True)
    samples, statuses, took_s = await watch_memory(
        gateway, url, Prompts(arguments.seed), requests=arguments.requests, connections=arguments.connections
    )
    gateway.stop()
    growth, allowed = growth_bytes(samples)
    budget, peak = arguments.index_mib * MIB, max(s.index_bytes for s in samples)
    report.bars += [
        Bar("prompts not answered 200", arguments.requests - statuses[200], "==", 0),
        Bar("growth of resident memory after warm-up, MiB", growth / MIB, "<=", allowed / MIB),
        Bar("highest warmgate_index_bytes, share of the budget", peak / budget, "<=", 1.0),
        Bar("the same: the budget was really in play", peak / budget, ">=", MIN_BUDGET_SHARE),
    ]
    shown = samples[:: SAMPLES // 10]
    rows = [(s.requests, s.rss_bytes / MIB, s.index_bytes / MIB) for s in shown]
    report.tables.append(
        Table("Memory under distinct prompts", ("requests sent", "resident, MiB", "warmgate_index_bytes, MiB"), rows)
    )
    report.notes.append(
        f"Prompts: {arguments.requests:,} of {PROMPT_CHARACTERS:,} characters (2,000 tokens), different from the first "
        f"character on, over {arguments.connections} connections in {took_s:.0f} s; index budget {arguments.index_mib} "
        f"MiB; the stub worker claims a cache so large that only the budget evicts. Growth is the highest reading of "
        f"the last {WINDOW_SHARE:.0%} of the requests minus the highest of the {WINDOW_SHARE:.0%} after the first "
        f"{WARM_UP_SHARE:.0%}; it may be {MAX_GROWTH_SHARE:.0%}, or {MAX_GROWTH_BYTES // MIB} MiB where that is more."
    )
    report.figures["prompts"] = {"samples": samples, "statuses": statuses, "took_s": took_s}


async def run_mix(processes: Processes, arguments: argparse.Namespace, report: Report) -> None:
    """Run the second part, which checks the gauges after mixed requests."""
    pace = ("--first-byte-ms", str(FIRST_BYTE_MS), "--event-ms", str(EVENT_MS))
    _, worker_url = start_stub_worker(processes, *pace, name="stub-mix")
    gateway, url = _start_gateway(processes, arguments, worker_url, name="gateway-mix")
    print(f"sending {arguments.mixed:,} mixed requests", file=sys.stderr, flush=True)
    mix = await send_mix(url, requests=arguments.mixed, connections=arguments.connections, seed=arguments.seed)
    gateway.stop()
    report.bars += [
        Bar("gauges of work under way that were seen above 0", sum(1 for peak in mix.peaks.values() if peak), ">=", 1),
        Bar("gauges of work under way not back at 0", sum(1 for value in mix.left.values() if value), "==", 0),
        Bar("mixed requests with another outcome than they should have", mix.unexpected, "==", 0),
    ]
    report.tables += [
        Table(
            "Gauges of work under way",
            ("gauge (sum over workers)", "highest", "at rest"),
            [(key, mix.peaks.get(key), value) for key, value in sorted(mix.left.items())],
        ),
        Table(
            "Mixed requests",
            ("kind", "sent", "should end", "ended"),
            [
                (name, mix.outcomes[name].total(), kind.outcome, _listed(mix.outcomes[name]))
                for name, kind in KINDS.items()
            ],
        ),
    ]
    report.notes.append(
        f"Mix: {arguments.mixed:,} requests, {arguments.connections} at a time; the stub worker waits "
        f"{FIRST_BYTE_MS:g} ms before the first byte and {EVENT_MS:g} ms before every event. The gauges are those "
        f"whose name has in_flight, booked or backlog; they had {SETTLE_S:g} s after the last request to come to rest, "
        f"and were watched for {mix.settled_s:.1f} s of it."
    )
    report.figures["mix"] = mix


def _start_gateway(
    processes: Processes, arguments: argparse.Namespace, worker_url: str, *, name: str
) -> tuple[Child, str]:
    settings = settings_before(worker_url)
    settings["index"] = {"max_bytes": arguments.index_mib * MIB}
    return start_gateway(processes, settings, command=arguments.gateway, name=name)


def _listed(outcomes: Counter[str]) -> str:
    return ", ".join(f"{what}: {count:,}" for what, count in outcomes.most_common())


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("memory", __doc__)
    parser.add_argument("--requests", type=int, default=200_000, help="distinct prompts")
    parser.add_argument("--mixed", type=int, default=10_000, help="mixed requests")
    parser.add_argument("--index-mib", type=int, default=32, help="the index budget; smaller for a shorter run")
    parser.add_argument("--connections", type=int, default=32)
    add_gateway_option(parser)
    return parser.parse_args(arguments)


async def run(arguments: argparse.Namespace) -> Report:
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES)
    report = Report("memory", "What the gateway keeps when the requests are gone", circumstances)
    with Processes() as processes:
        await run_prompts(processes, arguments, report)
        await run_mix(processes, arguments, report)
    return report


def main() -> int:
    arguments = parse_arguments()
    return conclude(
        "memory", lambda: uvloop.run(run(arguments)), results=arguments.results, cannot_run=[ChildFailedError]
    )


if __name__ == "__main__":
    sys.exit(main())
