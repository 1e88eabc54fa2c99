"""Load tests of proxies with wrk. Each proxy has one core, and the stub worker and wrk share another core."""

import json
import os
import random
import resource
import socket
import struct
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks import wrk
from benchmarks.chat_bodies import PATH, SMALL, Load, Size, bodies
from benchmarks.nginx import start_nginx
from benchmarks.processes import (
    Child,
    ChildFailedError,
    Processes,
    core_busy_s,
    pinned,
    settings_before,
    start_gateway,
    start_stub_worker,
)
from benchmarks.report import Spread
from benchmarks.stub_worker import EVENTS_PER_STREAM

SECRET = "benchmark"
KEYS_AND_LIMITS: Mapping[str, Any] = {
    "teams": [
        {
            "name": "benchmark",
            "limits": {"requests_per_minute": 10**8, "tokens_per_minute": 10**11, "usd_per_month": 10**9},
            "keys": [
                {
                    "id": "benchmark",
                    "secret": SECRET,
                    "limits": {"tokens_per_minute": 10**11, "max_concurrent_requests": 10**4},
                }
            ],
        }
    ]
}
"""Settings with one API key and five limits that are never reached."""
ADMIN_SECRET = SECRET
ADMIN_KEY: Mapping[str, Any] = {"keys": [{"role": "owner", "secret": ADMIN_SECRET}]}
WITHOUT_RECORDS: Mapping[str, Any] = {"admin": {**ADMIN_KEY, "receipts": 0, "cache_activity": False}}
"""Settings with an admin key, and with nothing recorded about completed requests."""
RECEIPTS: Mapping[str, Any] = {"admin": ADMIN_KEY}
"""Settings with receipts of the latest requests, which a gateway keeps if anybody can read them."""
RECEIPTS_AND_SHAPES: Mapping[str, Any] = {**RECEIPTS, "request_shapes": {"enabled": True}}
CONSOLE: Mapping[str, Any] = {**RECEIPTS_AND_SHAPES, "console": {"enabled": True}}
BUSY_CORE = 0.95  # a share of one core above which a single-threaded process is taken to be the limit
ARRIVAL_STREAMS = 10
DATA_SEGMENTS_IN_AT = 152  # offset of tcpi_data_segs_in in struct tcp_info, linux/tcp.h


@dataclass(frozen=True, slots=True)
class Target:
    """Program under test, with its address for each kind of load."""

    name: str
    child: Child
    urls: Mapping[Load, str]
    secret: str = SECRET
    """API key or token of the requests."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measurement of one target under one kind of load in one round."""

    target: str
    load: Load
    round: int
    per_s: float
    """Complete answers per second."""
    p50_ms: float
    p99_ms: float
    target_cpu: float
    """Share of one core that the target used."""
    stub_cpu: float
    others_on_proxy_core: float
    """Share of the proxy's core that programs outside the benchmark used."""
    others_on_load_core: float
    errors: int
    """Number of answers with status 400 and above, timeouts, and broken connections."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """TCP packets in which a stream reaches the client, counted by the kernel, so that a slow reader has no effect."""

    target: str
    packets_idle: float
    """Number of packets while no other stream is open."""
    packets_loaded: float
    """Number of packets while the benchmark's other streams are open."""


class Bench:
    """Benchmark run with its programs, its load, and their assignment to cores."""

    def __init__(self, processes: Processes, *, proxy_core: int, load_core: int, connections: int, seed: int) -> None:
        self.processes = processes
        self.proxy_core = proxy_core
        self.load_core = load_core
        self._connections = connections
        self._seed = seed
        self._runs = 0
        self._script = processes.directory / "load.lua"
        self._script.write_text(wrk.SCRIPT)
        self._bodies: dict[tuple[Load, Size], Path] = {}

    def start_stub(self, *options: str, name: str = "stub") -> Target:
        """Start a stub worker with *options*. With several ports, return the address of the first one."""
        child, url = start_stub_worker(self.processes, *options, name=name, cores={self.load_core})
        return Target("stub worker, no proxy", child, {"requests": url, "streams": url})

    def start_nginx(self, *worker_urls: str) -> Target:
        child, urls = start_nginx(self.processes, worker_urls, cores={self.proxy_core})
        return Target("nginx", child, urls)

    def store_url(self) -> str:
        """Return the URL of an embedded store, which is the same for all callers."""
        return f"sqlite:///{self.processes.directory / 'keys.db'}"

    def start_gateway(
        self,
        *worker_urls: str,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        secret: str = SECRET,
        cores: Collection[int] | None = None,
    ) -> Target:
        """Start a gateway on *cores*, or on the core of the proxies."""
        child, url = start_gateway(
            self.processes,
            settings_before(*worker_urls, **(settings or {})),
            command=command,
            environment=environment,
            name="".join(letter if letter.isalnum() else "-" for letter in name),
            cores={self.proxy_core} if cores is None else cores,
        )
        return Target(name, child, {"requests": url, "streams": url}, secret)

    def measure(
        self,
        target: Target,
        stub: Target,
        load: Load,
        *,
        round_number: int,
        seconds: float,
        size: Size = SMALL,
        connections: int | None = None,
    ) -> Measurement:
        """Run *load* against *target* for *seconds*."""
        before = self._busy_s(target, stub)
        running = self._start_wrk(target, load, seconds=seconds, size=size, connections=connections)
        found = wrk.Found.in_output(running.wait(timeout_s=seconds + 30 + wrk.TIMEOUT_S))
        share = {who: (busy_s - before[who]) / found.took_s for who, busy_s in self._busy_s(target, stub).items()}
        on_proxy_core = 0.0 if target is stub else share["target"]
        return Measurement(
            target=target.name,
            load=load,
            round=round_number,
            per_s=found.answers / found.took_s,
            p50_ms=found.p50_ms,
            p99_ms=found.p99_ms,
            target_cpu=share["target"],
            stub_cpu=share["stub"],
            others_on_proxy_core=max(0.0, share["proxy core"] - on_proxy_core),
            others_on_load_core=max(0.0, share["load core"] - share["stub"] - share["wrk"]),
            errors=found.errors,
        )

    def _busy_s(self, target: Target, stub: Target) -> dict[str, float]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # wrk is the only child that ends in a round
        return {
            "target": target.child.cpu_s(),
            "stub": stub.child.cpu_s(),
            "wrk": ended.ru_utime + ended.ru_stime,
            "proxy core": core_busy_s(self.proxy_core),
            "load core": core_busy_s(self.load_core),
        }

    def watch_arrival(self, target: Target, stub: Target) -> Arrival:
        """Measure how *target* splits a stream into packets, without and with load. The measurement takes some seconds.

        The reader and the sender use different cores, like a proxy and the stub worker. On the same core, the reader
        would rarely run and acknowledge packets, and the kernel would merge packets.
        """
        body = bodies("streams", random.Random(0))[0].encode()
        with pinned({self.proxy_core if target is stub else self.load_core}):
            idle = packets_per_stream(target.urls["streams"], body)
            running = self._start_wrk(target, "streams", seconds=3)
            time.sleep(0.5)
            loaded = packets_per_stream(target.urls["streams"], body)
            running.wait(timeout_s=30)
        return Arrival(target.name, packets_idle=idle, packets_loaded=loaded)

    def _start_wrk(
        self, target: Target, load: Load, *, seconds: float, size: Size = SMALL, connections: int | None = None
    ) -> Child:
        self._runs += 1
        command = wrk.command(
            target.urls[load] + PATH,
            script=self._script,
            bodies=self._bodies_file(load, size),
            connections=connections or self._connections,
            seconds=seconds,
            secret=target.secret,
        )
        return self.processes.start(f"wrk-{self._runs}", command, cores={self.load_core})

    def _bodies_file(self, load: Load, size: Size) -> Path:
        if (load, size) not in self._bodies:
            path = self.processes.directory / f"{load}-{len(self._bodies)}.bodies"
            path.write_text("\n".join(bodies(load, random.Random(self._seed), size)) + "\n")
            self._bodies[load, size] = path
        return self._bodies[load, size]


def check_answers(target: Target) -> None:
    """Check that one answer of each kind arrives completely.

    Raises:
        ChildFailedError: if an answer is not complete. The message contains the received data.
    """
    rng = random.Random(0)
    headers = {"content-type": "application/json", "authorization": f"Bearer {target.secret}"}
    with httpx.Client(timeout=10.0, headers=headers) as client:
        answer = client.post(target.urls["requests"] + PATH, content=bodies("requests", rng)[0])
        if answer.status_code != 200 or answer.json().get("object") != "chat.completion":
            raise ChildFailedError(f"{target.name} answered {answer.status_code}: {answer.text[:200]}")
        stream = client.post(target.urls["streams"] + PATH, content=bodies("streams", rng)[0])
    events = [line for line in stream.text.split("\n\n") if line.startswith("data: {") and _has_text(line)]
    if len(events) != EVENTS_PER_STREAM or not stream.text.endswith("data: [DONE]\n\n"):
        raise ChildFailedError(f"{target.name} passed {len(events)} events of a stream: {stream.text[-200:]}")


def _has_text(line: str) -> bool:
    """Return whether an event contains text. Some proxies report the end of the text in a separate event."""
    choices = json.loads(line.removeprefix("data: ")).get("choices")
    return bool(choices and choices[0]["delta"].get("content"))


def packets_per_stream(url: str, body: bytes, *, streams: int = ARRIVAL_STREAMS) -> float:
    """Return the mean number of TCP segments with data per streamed answer."""
    host, port = urlsplit(url).netloc.split(":")
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer benchmark\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=10.0) as connection:
        for _ in range(streams):
            connection.sendall(head.encode() + body)
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                piece = connection.recv(65_536)
                if not piece:
                    raise ChildFailedError("the connection was closed in the middle of a stream")
                received = received[-8:] + piece
        tcp_info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    (segments,) = struct.unpack_from("I", tcp_info, DATA_SEGMENTS_IN_AT)
    return float(segments) / streams


def ratios(found: Sequence[Measurement], target: str, load: Load, to: str = "nginx") -> Spread:
    """Return the rate of *target* divided by the rate of *to* for each common round.

    Raises:
        ValueError: if the two have no common round.
    """
    limit = {m.round: m.per_s for m in found if m.target == to and m.load == load}
    own = (m for m in found if m.target == target and m.load == load and limit.get(m.round))
    return Spread.of(m.per_s / limit[m.round] for m in own)


def two_cores() -> tuple[int, int]:
    """Return one core for the proxy, and one core for the stub worker and the load.

    Raises:
        ChildFailedError: if this process can use only one core.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise ChildFailedError("two cores are needed: one for the proxy, one for stub worker and load")
    return cores[0], cores[1]
