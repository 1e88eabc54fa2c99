"""Memory per open stream, and the maximum memory of the gateway for clients that stop reading.

The benchmark has two parts with separate gateways, each in one process with default settings. In the first part, a
thousand streams run slowly, like streams of a busy engine. In the second part, a few clients stop reading while the
worker sends as fast as possible. The gateway must stop reading too, so that memory stays within the limits of the
buffers.

Resident memory includes only the gateway process. Socket buffers of the kernel are additional.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import resource
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import httptools
import httpx
import uvloop

from benchmarks.flood_worker import Flood
from benchmarks.gauges import gauges, work_left
from benchmarks.memory import MIB, PROMPT_CHARACTERS, Prompts, address
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
from benchmarks.stub_worker import EVENTS_PER_STREAM, write_script
from gateway.backends.upstream.response_parser import ResponseLimits

KIB = 2**10
EVENT_MARK = b'data: {"id"'  # begins every event but the errors and [DONE]
END_BYTES = 32  # enough to see [DONE], and an EVENT_MARK that comes in two pieces
FIRST_EVENTS = 3  # after these a stream is under way in every part of the gateway
WARM_UP_REQUESTS = 20
SETTLE_S = 2.0
WATCH_S = 2.0
POLL_S = 0.1
STILL_S = 3.0  # a worker that sends nothing for this long is held back
MOST_HOLD_S = 30.0
END_TIMEOUT_S = 120.0
CLIENT_BUFFER_BYTES = 65_536  # of the kernel, for a slow reader; by itself it would grow with what the client reads
SPARE_FILES = 200

# A stream that waits holds no full buffer: with all that belongs to it, it must cost less than one that is full.
MAX_STREAM_BYTES = ResponseLimits().high_water_bytes

# What comes from the worker at once is at most the high-water mark and the receive that crosses it. The stream of a
# slow reader may hold that three times: waiting to be taken, on its way through the gateway, and as the write that
# crosses the high-water mark towards the client.
RECEIVE_BYTES = 256 * KIB  # asyncio's most; uvloop's is 256,000
WRITE_HIGH_WATER_BYTES = 64 * KIB  # asyncio's and uvloop's default
BUFFERS_BYTES = 3 * (ResponseLimits().high_water_bytes + RECEIVE_BYTES) + WRITE_HIGH_WATER_BYTES
# The quarter more is for the stream itself, for the 40 bytes that every HTTP chunk costs as a Python object while it
# waits (a fifth of a chunk with one token), and for the reader's share of what is made once.
MAX_SLOW_READER_BYTES = BUFFERS_BYTES * 5 // 4
# The other half has not left the worker. What has lies in the kernel's buffers, at the worker, the gateway, the client.
MAX_SENT_SHARE = 0.5
PACKAGES = ("uvicorn", "uvloop", "httptools", "numpy", "msgspec", "prometheus-client")


class Stream(asyncio.Protocol):
    """Client of one stream that counts its events. With *stops*, the client stops reading after the first events."""

    def __init__(self, request: bytes, *, stops: bool) -> None:
        self._request = request
        self._stops = stops
        self._parser = httptools.HttpResponseParser(self)
        self._end = b""
        self._transport: asyncio.Transport
        self.events = 0
        self.is_complete = False
        """Whether the answer ended as HTTP requires, with any content."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_whole(self, events: int) -> bool:
        """Whether all *events* and ``[DONE]`` arrived."""
        is_done = self._end.endswith(b"data: [DONE]\n\n")
        return self.is_complete and is_done and self._parser.get_status_code() == 200 and self.events == events

    def read_on(self) -> None:
        self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like asyncio's
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        if self._stops and self.events and not self.is_complete:
            self._stops = False
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._finish()

    # httptools

    def on_body(self, body: bytes) -> None:
        overlap = len(EVENT_MARK) - 1  # an event's beginning may come in two pieces, but is never counted twice
        self.events += (self._end[-overlap:] + body).count(EVENT_MARK)
        self._end = (self._end + body)[-END_BYTES:]

    def on_message_complete(self) -> None:
        self.is_complete = True
        self._finish()
        self._transport.close()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def open_streams(url: str, requests: Iterable[bytes], *, stops: bool = False) -> list[Stream]:
    """Open a connection and a stream for each of *requests*. Return when all have received their first events.

    Raises:
        ChildFailedError: if a stream ended early, or had no event within `END_TIMEOUT_S`.
    """
    streams = [await _open(url, request, stops=stops) for request in requests]
    give_up_at = time.monotonic() + END_TIMEOUT_S
    wanted = 1 if stops else FIRST_EVENTS
    while waiting := [stream for stream in streams if stream.events < wanted]:
        if time.monotonic() >= give_up_at or any(stream.done.done() for stream in waiting):
            raise ChildFailedError(f"{len(waiting)} of {len(streams)} streams did not begin")
        await asyncio.sleep(POLL_S)
    return streams


async def _open(url: str, request: bytes, *, stops: bool) -> Stream:
    loop = asyncio.get_running_loop()
    connection = socket.socket()
    connection.setblocking(False)
    if stops:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CLIENT_BUFFER_BYTES)
    await loop.sock_connect(connection, address(url))
    return (await loop.create_connection(lambda: Stream(request, stops=stops), sock=connection))[1]


async def not_whole(streams: Sequence[Stream], *, events: int) -> int:
    """Return how many of *streams* are incomplete. Waits until all have *events*, or `END_TIMEOUT_S`."""
    await asyncio.wait([stream.done for stream in streams], timeout=END_TIMEOUT_S)
    return sum(not stream.is_whole(events) for stream in streams)


@dataclass(frozen=True, slots=True)
class Reading:
    """Memory and gauges of the gateway with a number of open streams."""

    streams: int
    in_flight: float
    rss_bytes: int
    """Highest resident memory within `WATCH_S` seconds."""
    index_bytes: float


async def read(gateway: Child, url: str, *, streams: int) -> Reading:
    """Return a reading when the gateway has settled, which takes `SETTLE_S` and `WATCH_S`."""
    await asyncio.sleep(SETTLE_S)
    rss_bytes = gateway.rss_bytes()
    until = time.monotonic() + WATCH_S
    while time.monotonic() < until:
        await asyncio.sleep(POLL_S)
        rss_bytes = max(rss_bytes, gateway.rss_bytes())
    reported = await gauges(url)

    def total(gauge: str) -> float:
        return sum(value for name, _, value in reported if name == gauge)

    return Reading(streams, total("warmgate_requests_in_flight"), rss_bytes, total("warmgate_index_bytes"))


def bytes_per_stream(fewer: Reading, more: Reading) -> float:
    return (more.rss_bytes - fewer.rss_bytes) / (more.streams - fewer.streams)


@dataclass(slots=True)
class Hold:
    """Observations while the slow readers had stopped reading."""

    highest_rss_bytes: int = 0
    sent_bytes: list[int] = field(default_factory=list)
    """Number of bytes that the worker sent to each reader."""
    still_s: float = 0.0
    """Time for which the worker had sent nothing at the end of the observation."""
    took_s: float = 0.0


async def sent_bytes(worker: httpx.AsyncClient) -> list[int]:
    """Return the bytes of every stream of a flood worker that the kernel has accepted."""
    sent: list[int] = (await worker.get("/sent")).json()
    return sent


async def watch_hold(gateway: Child, sent: Callable[[], Awaitable[list[int]]]) -> Hold:
    """Watch until the worker has sent nothing for `STILL_S`, or for `MOST_HOLD_S`. *sent* returns the bytes sent."""
    hold = Hold()
    began = sent_last_at = time.monotonic()
    while hold.still_s < STILL_S and hold.took_s < MOST_HOLD_S:
        await asyncio.sleep(POLL_S)
        hold.highest_rss_bytes = max(hold.highest_rss_bytes, gateway.rss_bytes())
        before, hold.sent_bytes = hold.sent_bytes, await sent()
        now = time.monotonic()
        if hold.sent_bytes != before:
            sent_last_at = now
        hold.still_s, hold.took_s = now - sent_last_at, now - began
    return hold


# ---- the run


async def run_open(processes: Processes, arguments: argparse.Namespace, report: Report) -> None:
    """Run the first part, which measures memory per slow open stream."""
    _, worker_url = start_stub_worker(processes, "--event-ms", str(arguments.event_ms), name="stub-open")
    gateway, url = await start_warm(processes, arguments, worker_url, name="gateway-open")
    prompts = Prompts(arguments.seed)
    streams: list[Stream] = []
    readings = [await read(gateway, url, streams=0)]
    for level in (max(1, arguments.streams // 10), arguments.streams):
        print(f"opening streams up to {level:,}", file=sys.stderr, flush=True)
        streams += await open_streams(
            url, (prompts.request(number, streams=True) for number in range(len(streams), level))
        )
        readings.append(await read(gateway, url, streams=level))
    broken = await not_whole(streams, events=EVENTS_PER_STREAM)
    left = await work_left(url)
    readings.append(await read(gateway, url, streams=0))
    gateway.stop()
    tell_open(report, readings, broken=broken, left=left)


def tell_open(report: Report, readings: Sequence[Reading], *, broken: int, left: Mapping[str, float]) -> None:
    """Write targets and table of the first part. *readings* are with no, some and all streams open, and after their
    end.
    """
    none, some, most, _ = readings
    per_stream = bytes_per_stream(some, most)
    report.bars += [
        Bar(
            f"resident memory per open stream, from {some.streams:,} to {most.streams:,}, KiB",
            per_stream / KIB,
            "<=",
            MAX_STREAM_BYTES / KIB,
        ),
        Bar("streams in flight, as the gateway counts, when all were open", most.in_flight, "==", most.streams),
        Bar("open streams that did not come to a good end with every event", broken, "==", 0),
        _at_rest(left, after="open streams"),
    ]
    per_row = (None, bytes_per_stream(none, some) / KIB, per_stream / KIB, None)
    names = (*(f"{reading.streams:,}" for reading in (none, some, most)), "0, all have ended")
    rows = [
        (name, reading.in_flight, reading.rss_bytes / MIB, kib, reading.index_bytes / MIB)
        for name, reading, kib in zip(names, readings, per_row, strict=True)
    ]
    columns = ("open", "warmgate_requests_in_flight", "resident, MiB", "KiB per stream more", "of it index, MiB")
    report.tables.append(Table("Open streams", columns, rows))
    report.figures["open"] = {"readings": list(readings), "bytes_per_stream": per_stream, "left": dict(left)}


async def run_slow(processes: Processes, arguments: argparse.Namespace, report: Report) -> None:
    """Run the second part, which measures the memory that slow readers cause."""
    stream_bytes = arguments.stream_mib * MIB
    command = [sys.executable, "-m", "benchmarks.flood_worker", "--stream-bytes", str(stream_bytes)]
    worker_url = processes.start("flood", command).wait_for_ready_line()
    gateway, url = await start_warm(processes, arguments, worker_url, name="gateway-slow")
    prompts = Prompts(arguments.seed)
    before = await read(gateway, url, streams=0)
    print(f"{arguments.slow_readers} readers stop reading", file=sys.stderr, flush=True)
    requests = (prompts.request(number, streams=True) for number in range(arguments.slow_readers))
    streams = await open_streams(url, requests, stops=True)
    async with httpx.AsyncClient(base_url=worker_url, timeout=10.0) as worker:
        hold = await watch_hold(gateway, lambda: sent_bytes(worker))
    print("they read on", file=sys.stderr, flush=True)
    for stream in streams:
        stream.read_on()
    broken = await not_whole(streams, events=Flood(write_script("tiny"), stream_bytes=stream_bytes).events)
    left = await work_left(url)
    after = await read(gateway, url, streams=0)
    gateway.stop()
    tell_slow(report, before, hold, after, stream_bytes=stream_bytes, broken=broken, left=left)


def tell_slow(
    report: Report,
    before: Reading,
    hold: Hold,
    after: Reading,
    *,
    stream_bytes: int,
    broken: int,
    left: Mapping[str, float],
) -> None:
    """Write targets and table of the second part."""
    readers = len(hold.sent_bytes)
    per_reader = (hold.highest_rss_bytes - before.rss_bytes) / readers
    report.bars += [
        Bar("resident memory per slow reader, KiB", per_reader / KIB, "<=", MAX_SLOW_READER_BYTES / KIB),
        Bar("seconds for which the worker could send nothing to them", hold.still_s, ">=", STILL_S),
        Bar(
            "most that was sent to one, share of its stream", max(hold.sent_bytes) / stream_bytes, "<=", MAX_SENT_SHARE
        ),
        Bar("slow readers whose stream did not come to a good end with every event", broken, "==", 0),
        _at_rest(left, after="slow readers"),
    ]
    rows: list[tuple[str, float, float | None]] = [
        ("before", before.rss_bytes / MIB, None),
        (f"{readers} slow readers (highest)", hold.highest_rss_bytes / MIB, sum(hold.sent_bytes) / readers / MIB),
        ("after", after.rss_bytes / MIB, stream_bytes / MIB),
    ]
    columns = ("", "resident, MiB", "sent per reader, mean MiB")
    report.tables.append(Table("Slow readers", columns, rows))
    report.figures["slow"] = {"before": before, "hold": hold, "after": after, "left": dict(left)}


def _at_rest(left: Mapping[str, float], *, after: str) -> Bar:
    return Bar(f"gauges of work under way not back at 0 after {after}", sum(map(bool, left.values())), "==", 0)


def notes(arguments: argparse.Namespace) -> list[str]:
    """Return notes on the run, and on the source of the targets."""
    return [
        f"Open streams: requests of {PROMPT_CHARACTERS:,} characters that have nothing in common, answered with "
        f"{EVENTS_PER_STREAM} events, one every {arguments.event_ms:g} ms. A reading is the highest of {WATCH_S:g} s, "
        f"{SETTLE_S:g} s after every stream has had {FIRST_EVENTS} events. Before the first, {WARM_UP_REQUESTS} "
        "requests without streaming, one after the other. Bar: a stream that waits costs less than a buffer that is "
        f"full ({MAX_STREAM_BYTES // KIB} KiB, the high-water mark of an answer from a worker). The first streams also "
        "pay for what is made once: the bar is held against those after them.",
        f"Slow readers: {arguments.slow_readers} clients that read nothing more after the first events of a stream of "
        f"{arguments.stream_mib} MiB, with {CLIENT_BUFFER_BYTES // KIB} KiB of receive buffer, while the worker writes "
        f"as fast as it can; they read on when it had sent nothing for {STILL_S:g} s.",
        f"Bar for them: the gateway's own limits come to {BUFFERS_BYTES // KIB} KiB for each (a high-water mark of "
        f"{ResponseLimits().high_water_bytes // KIB} KiB and one receive of {RECEIVE_BYTES // KIB}, three times: "
        f"waiting, on the way, being written; and {WRITE_HIGH_WATER_BYTES // KIB} in the write buffer), and a quarter "
        "more for the stream, for Python's objects, and for the share of one in 16 of what is made once.",
        "Sent is what the worker's kernel took. What the gateway does not hold lies in socket buffers, whose limits "
        f"(bytes: least, first, most) are here: {socket_limits()}.",
    ]


async def start_warm(
    processes: Processes, arguments: argparse.Namespace, worker_url: str, *, name: str
) -> tuple[Child, str]:
    """Start a gateway and send it requests one by one, so that one-time allocations are done.

    Concurrent requests would leave free memory in the allocator, which the measurement would miss.

    Raises:
        ChildFailedError: if the gateway does not start or does not answer.
    """
    settings = settings_before(worker_url)
    gateway, url = start_gateway(processes, settings, command=arguments.gateway, name=name)
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Warm up."}]}
    async with httpx.AsyncClient(timeout=10.0) as client:
        for _ in range(WARM_UP_REQUESTS):
            answer = await client.post(f"{url}/v1/chat/completions", json=body)
            if answer.status_code != 200:
                raise ChildFailedError(f"the gateway answered {answer.status_code}: {answer.text[:200]}")
    return gateway, url


def socket_limits() -> str:
    """Return the kernel's limits for TCP socket buffers, described in tcp(7)."""
    names = ("tcp_wmem", "tcp_rmem")
    return ", ".join(f"{name} {' '.join(Path('/proc/sys/net/ipv4', name).read_text().split())}" for name in names)


def allow_files(needed: int) -> None:
    """Raise the limit of open files for this process and its children, if it is lower.

    Raises:
        ChildFailedError: if the limit cannot be raised enough.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, needed))
        except (OSError, ValueError):
            fault = f"{needed} open files are needed, and no more than {hard} allowed (ulimit -Hn)"
            raise ChildFailedError(fault) from None
    elif soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("streams", __doc__)
    parser.add_argument("--streams", type=int, default=1_000, help="open at once, at least 2; first a tenth of them")
    parser.add_argument("--event-ms", type=float, default=500.0, help="between two events of an open stream")
    parser.add_argument("--slow-readers", type=int, default=16)
    parser.add_argument("--stream-mib", type=int, default=64, help="size of a slow reader's stream")
    add_gateway_option(parser)
    parsed = parser.parse_args(arguments)
    if parsed.streams < 2 or parsed.slow_readers < 1 or parsed.stream_mib < 1:
        parser.error("--streams must be at least 2, --slow-readers and --stream-mib at least 1")
    return parsed


async def run(arguments: argparse.Namespace) -> Report:
    allow_files(2 * arguments.streams + SPARE_FILES)  # the gateway has two connections for a stream
    report = Report(
        "streams",
        "Memory of open streams and slow readers",
        Circumstances.observe(seed=arguments.seed, packages=PACKAGES),
    )
    with Processes() as processes:
        await run_open(processes, arguments, report)
        await run_slow(processes, arguments, report)
    report.notes = notes(arguments)
    return report


def main() -> int:
    arguments = parse_arguments()
    return conclude(
        "streams", lambda: uvloop.run(run(arguments)), results=arguments.results, cannot_run=[ChildFailedError]
    )


if __name__ == "__main__":
    sys.exit(main())
