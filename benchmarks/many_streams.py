"""Thousands of concurrent streams with an event per second each: failed streams, and delays of events.

The worker writes the sending time into every event, and the client compares that time with its clock. The same streams
run through every proxy, and directly from the worker to the client for comparison. The proxy has its own core, and the
worker and the client share another core.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import gc
import re
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import uvloop

from benchmarks.bench import two_cores
from benchmarks.gauges import work_left
from benchmarks.load_tools import install_tools
from benchmarks.memory import Prompts, address
from benchmarks.peers.environment import PEERS
from benchmarks.processes import (
    Child,
    ChildFailedError,
    Processes,
    add_gateway_option,
    free_port,
    pinned,
    settings_before,
    start_gateway,
)
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude
from benchmarks.shipped import build
from benchmarks.streams import KIB, allow_files
from benchmarks.timed_worker import DONE, SENT_AT

OPENED_PER_S = 500  # new streams; all at once would measure the opening
WATCH_S = 20  # with all streams open
SPARE_EVENTS = 5  # before and behind what is watched
END_TIMEOUT_S = 60.0
SPARE_FILES = 600
MAX_P99_ADDED_MS = 10.0  # beside the 20 ms and more between two tokens no one notices it
DIRECT = "straight from the worker"
OURS = "gateway"
STATUS_LINE = b"HTTP/1.1 200 "
IN_FLIGHT = re.compile(rb"^warmgate_requests_in_flight\{.*\} (\S+)$", re.MULTILINE).findall
END = DONE + b"\r\n0\r\n\r\n"  # of the last chunk, and of the body
PACKAGES = ("uvicorn", "uvloop", "httptools", "numpy", "msgspec", "prometheus-client")

NGINX_CONFIG = """
daemon off; master_process off; worker_processes 1; worker_rlimit_nofile {files};
pid nginx.pid; error_log stderr;
events {{ worker_connections {files}; }}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass {worker}; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""


class Events:
    """Arrival times of the events of all streams, and their times of travel, in nanoseconds."""

    def __init__(self) -> None:
        self._came = array("q")
        self._took = array("q")

    def add(self, came: int, took: int) -> None:
        self._came.append(came)
        self._took.append(took)

    def between(self, begin: int, end: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Return the delays of the events that arrived from *begin* until *end*."""
        came, took = np.frombuffer(self._came, np.int64), np.frombuffer(self._took, np.int64)
        return took[(came >= begin) & (came < end)]


class Stream(asyncio.Protocol):
    """Client of one stream, which reads only enough of HTTP to detect whether the stream arrived completely."""

    def __init__(self, request: bytes, seen: Events) -> None:
        self._request = request
        self._seen = seen
        self.rest = b""
        """Bytes after the last complete event, which can be the start of the next event."""
        self._is_ok = False
        self._transport: asyncio.Transport
        self.events = 0
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Future that is done when the first event arrives, or when no event can arrive any more."""
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Future with the time at which the stream ended, complete or not."""

    def is_whole(self, events: int) -> bool:
        """Whether all *events*, ``[DONE]`` and the end of the body arrived."""
        return self._is_ok and self.events == events and self.rest.endswith(END)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like asyncio's
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter_ns()
        if not self.events and not self.rest:
            self._is_ok = data.startswith(STATUS_LINE)
            if not self._is_ok:
                self._transport.close()
        data = self.rest + data
        behind = 0
        for event in SENT_AT(data):
            self._seen.add(now, now - int(event[1]))
            self.events += 1
            behind = event.end()
        self.rest = data[behind:]
        if self.events and not self.begun.done():
            self.begun.set_result(None)
        if self.rest.endswith(END):
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        for future, result in ((self.begun, None), (self.done, time.perf_counter_ns())):
            if not future.done():
                future.set_result(result)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Found:
    """Results of all streams through one target."""

    target: str
    streams: int
    failed: int
    """Number of incomplete streams."""
    events: int
    """Number of events between the start of the last stream and the end of the first stream."""
    p50_ms: float
    p99_ms: float
    p999_ms: float
    longest_ms: float
    core: float | None
    """Share of its core that the target used meanwhile, or None without a proxy."""
    kib_per_stream: float | None
    """Increase of resident memory per stream, compared with the time before the first stream."""
    in_flight: float | None = None
    """Number of streams in progress that the gateway counted while all were open, or None for other targets."""


async def watch(
    url: str,
    requests: Sequence[bytes],
    *,
    events: int,
    name: str,
    target: Child | None,
    counts: bool = False,
    watch_s: float = WATCH_S,
) -> Found:
    """Open a stream for each of *requests* at *url*, and wait until all streams have ended.

    *target* is the process of the proxy, if there is one. With *counts*, the proxy is a Warmgate gateway, which counts
    streams.

    Raises:
        ChildFailedError: if no stream began, or no event arrived while all were open.
    """
    seen = Events()
    before_bytes = target.rss_bytes() if target else 0
    streams = await _opened(url, requests, seen, name=name)
    began, cpu_s = time.perf_counter_ns(), target.cpu_s() if target else 0.0
    going_on = [stream.done for stream in streams if not stream.done.done()]
    await asyncio.sleep(watch_s / 2)
    held_bytes = target.rss_bytes() if target else 0
    in_flight = await counted_in_flight(url) if counts else None
    await asyncio.wait(going_on, timeout=END_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    until, cpu_s = time.perf_counter_ns(), (target.cpu_s() - cpu_s if target else 0.0)
    await asyncio.wait(going_on, timeout=END_TIMEOUT_S)
    took_ms = seen.between(began, until) / 1e6
    if not len(took_ms):
        raise ChildFailedError(f"{name}: no events came while all streams were open")
    p50, p99, p999 = (float(value) for value in np.percentile(took_ms, (50, 99, 99.9)))
    return Found(
        target=name,
        streams=len(streams),
        failed=sum(not stream.is_whole(events) for stream in streams),
        events=len(took_ms),
        p50_ms=p50,
        p99_ms=p99,
        p999_ms=p999,
        longest_ms=float(took_ms.max()),
        core=cpu_s / ((until - began) / 1e9) if target else None,
        kib_per_stream=(held_bytes - before_bytes) / len(streams) / KIB if target else None,
        in_flight=in_flight,
    )


async def _opened(url: str, requests: Sequence[bytes], seen: Events, *, name: str) -> list[Stream]:
    """Open the connections at `OPENED_PER_S`. Return when all streams have begun or failed, or after `END_TIMEOUT_S`.

    Raises:
        ChildFailedError: if no stream has begun.
    """
    loop = asyncio.get_running_loop()
    host, port = address(url)
    began = loop.time()
    streams: list[Stream] = []
    for number, request in enumerate(requests):
        await asyncio.sleep(began + number / OPENED_PER_S - loop.time())
        streams.append((await loop.create_connection(lambda: Stream(request, seen), host, port))[1])  # noqa: B023
    await asyncio.wait([stream.begun for stream in streams], timeout=END_TIMEOUT_S)
    if not any(stream.events for stream in streams):
        raise ChildFailedError(f"{name}: no stream began: {streams[0].rest[:200]!r}")
    return streams


async def counted_in_flight(url: str) -> float:
    """Return the number of requests in flight by the gateway at *url*.

    The request is written by hand, because an HTTP client blocks the process for 80 ms at its first use.
    """
    host, port = address(url)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
    reported = await reader.read()
    writer.close()
    return sum(float(value) for value in IN_FLIGHT(reported))


# ---- the targets


def start_worker(processes: Processes, arguments: argparse.Namespace, *, core: int) -> str:
    command = [sys.executable, "-m", "benchmarks.timed_worker", "--events", str(events_of(arguments))]
    return processes.start("worker", command, cores={core}).wait_for_ready_line()


def start_nginx(processes: Processes, worker_url: str, *, files: int, core: int) -> tuple[Child, str]:
    port = free_port()
    config = processes.directory / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(worker=worker_url, port=port, files=files))
    command = ["nginx", "-e", "stderr", "-p", str(processes.directory), "-c", str(config)]
    child = processes.start("nginx", command, cores={core})
    child.wait_for_port(port)
    return child, f"http://127.0.0.1:{port}"


def start_sglang(processes: Processes, worker_url: str, *, core: int) -> tuple[Child, str] | None:
    """Start SGLang's gateway with its cache-aware policy, or return None if `make peers` has not installed it."""
    python = PEERS["sglang"].python
    if not python.exists():
        return None
    port = free_port()
    command = [str(python), "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--prometheus-port", str(free_port()), "--worker-urls", worker_url, "--policy", "cache_aware"]
    command += ["--log-level", "warn", "--max-concurrent-requests", "-1"]
    child = processes.start("sglang", command, cores={core})
    child.wait_for_port(port)
    return child, f"http://127.0.0.1:{port}"


def start_ours(processes: Processes, worker_url: str, arguments: argparse.Namespace, *, core: int) -> tuple[Child, str]:
    """Start the compiled gateway if it can be built, or else the gateway from the sources."""
    settings = settings_before(worker_url)
    if arguments.sources:
        return start_gateway(processes, settings, command=arguments.gateway, cores={core})
    shipped = build()
    return start_gateway(processes, settings, command=shipped.command, environment=shipped.environment, cores={core})


# ---- the run


def events_of(arguments: argparse.Namespace) -> int:
    """Return the number of events per stream, so that all streams still run `WATCH_S` after the last one has begun."""
    return int(2 * arguments.streams / OPENED_PER_S) + WATCH_S + SPARE_EVENTS


async def run(arguments: argparse.Namespace) -> Report:
    """Measure the targets one after the other, and return the report."""
    proxy_core, load_core = two_cores()
    install_tools()
    files = 2 * arguments.streams + SPARE_FILES
    allow_files(files)
    report = Report(
        "many_streams",
        f"{arguments.streams:,} streams at once, an event per second each",
        Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools=nginx_version()),
    )
    prompts = Prompts(arguments.seed)
    requests = [prompts.request(number, streams=True) for number in range(arguments.streams)]
    found: list[Found] = []
    with Processes() as processes, pinned({load_core}), collector_off():
        worker_url = start_worker(processes, arguments, core=load_core)
        events = events_of(arguments)
        found.append(await watch(worker_url, requests, events=events, name=DIRECT, target=None))
        gateway, url = start_ours(processes, worker_url, arguments, core=proxy_core)
        found.append(await watch(url, requests, events=events, name=OURS, target=gateway, counts=True))
        left = await work_left(url)
        gateway.stop()
        for name, started in (
            ("nginx", start_nginx(processes, worker_url, files=files, core=proxy_core)),
            ("SGLang's gateway", start_sglang(processes, worker_url, core=proxy_core)),
        ):
            if started is not None:
                child, url = started
                found.append(await watch(url, requests, events=events, name=name, target=child))
                child.stop()
    tell(report, found, unsettled=sum(map(bool, left.values())))
    return report


def tell(report: Report, found: Sequence[Found], *, unsettled: int) -> None:
    """Write the targets and the table. *found* starts with the direct streams and Warmgate. *unsettled* lists gauges
    that did not return to 0.
    """
    direct, ours = found[:2]
    report.bars += [
        Bar("streams that did not come whole", ours.failed, "==", 0),
        Bar("streams under way at once, as the gateway counts", ours.in_flight or 0.0, "==", ours.streams),
        Bar("p99 of what the gateway adds to an event's way, ms", ours.p99_ms - direct.p99_ms, "<=", MAX_P99_ADDED_MS),
        Bar("gauges of work under way not back at 0", unsettled, "==", 0),
    ]
    rows = [
        (
            each.target,
            each.failed,
            each.p50_ms,
            each.p99_ms,
            each.p999_ms,
            each.longest_ms,
            None if each is direct else each.p50_ms - direct.p50_ms,
            None if each is direct else each.p99_ms - direct.p99_ms,
            each.core,
            each.kib_per_stream,
        )
        for each in found
    ]
    columns = (
        "",
        "failed",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "longest ms",
        "p50 added",
        "p99 added",
        "of its core",
        "KiB",
    )
    report.tables.append(Table("From the worker to the client", columns, rows))
    report.notes += [
        f"{OPENED_PER_S} streams are opened per second. Watched are the events from when the last stream had its first "
        f"one to when the first stream ended ({ours.events:,} past the gateway). Added is a percentile past the proxy "
        "less the same percentile without. KiB is resident memory per open stream.",
        "One core for the proxy; worker and client, one process each, on the other. Prompts of 8,000 characters that "
        "have nothing in common. Gateway: prefix_aware, metrics and request log on.",
    ]
    report.figures["found"] = list(found)


@contextmanager
def collector_off() -> Iterator[None]:
    """Disable garbage collection, so that pauses of the client are not measured."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def nginx_version() -> dict[str, str]:
    said = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=False).stderr
    return {"nginx": said.split("/")[-1].strip()}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("many_streams", __doc__)
    parser.add_argument("--streams", type=int, default=5_000, help="open at once")
    parser.add_argument("--sources", action="store_true", help="the gateway from the checkout, with nothing compiled")
    add_gateway_option(parser)
    parsed = parser.parse_args(arguments)
    if parsed.streams < 1:
        parser.error("--streams must be at least 1")
    return parsed


def main() -> int:
    arguments = parse_arguments()
    return conclude(
        "many_streams", lambda: uvloop.run(run(arguments)), results=arguments.results, cannot_run=[ChildFailedError]
    )


if __name__ == "__main__":
    sys.exit(main())
