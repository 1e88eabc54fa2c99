"""What the gateway costs per request: against nginx, proxying the same stub worker, in the same run.

The proxy under test has one core to itself; the stub worker and wrk share another. Rounds are interleaved, and a ratio
compares two measurements of the same round, so that a machine that slows down slows both.

Exit status: 0 the bars are met, 1 one is missed, 2 the benchmark could not run.
"""

import argparse
import json
import os
import random
import resource
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from benchmarks.processes import (
    Child,
    ChildFailedError,
    Processes,
    add_gateway_option,
    core_busy_s,
    free_port,
    pinned,
    settings_before,
    start_gateway,
    start_stub_worker,
)
from benchmarks.report import Bar, Circumstances, Report, Spread, Table, argument_parser, conclude
from benchmarks.shipped import Shipped, build
from benchmarks.stub_worker import EVENTS_PER_STREAM

PROMPTS = 64
SYSTEM_CHARACTERS = 700  # shared by all prompts, as a system prompt is
USER_CHARACTERS = 330  # with the JSON around them a body comes to 1.2 kB
WARM_UP_S = 1.0
MIN_SHARE_WITH_KEYS = 0.9
KEYS_AND_LIMITS: Mapping[str, Any] = {
    "teams": [
        {
            "name": "benchmark",
            "limits": {"requests_per_minute": 10**8, "tokens_per_minute": 10**11, "usd_per_month": 10**9},
            "keys": [
                {
                    "id": "benchmark",
                    "secret": "benchmark",
                    "limits": {"tokens_per_minute": 10**11, "concurrent": 10**4},
                }
            ],
        }
    ]
}
"""One key and five limits, none of which is reached."""
MIN_NGINX_SHARE_OF_RATE = {"requests": 0.15, "streams": 0.9}  # SGLang's Rust gateway: 0.17 and 0.47
BUSY_CORE = 0.95  # a share of one core above which a single-threaded process is taken to be the limit
ARRIVAL_STREAMS = 10
DATA_SEGMENTS_IN_AT = 152  # offset of tcpi_data_segs_in in struct tcp_info, linux/tcp.h
PATH = "/v1/chat/completions"
WITH_KEYS = ", with a key and five limits"
PACKAGES = ("fastapi", "uvicorn", "granian", "uvloop", "httptools", "numpy", "msgspec", "prometheus-client")

Load = Literal["requests", "streams"]
LOADS: tuple[Load, ...] = ("requests", "streams")

WRK_SCRIPT = """
local requests, last = {}, 0

function init(arguments)
  for body in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, {
      ["content-type"] = "application/json", authorization = "Bearer benchmark"
    }, body)
  end
end

function request()
  last = last % #requests + 1
  return requests[last]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format('{"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, "errors": %d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""

NGINX_CONFIG = """
daemon off; master_process off; worker_processes 1;
pid nginx.pid; error_log stderr;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_buffer_size 64k;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream worker {{ server {worker}; keepalive 64; keepalive_requests 1000000000; }}
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  server {{ listen 127.0.0.1:{requests}; location / {{ proxy_pass http://worker; }} }}
  server {{ listen 127.0.0.1:{streams}; location / {{ proxy_pass http://worker; proxy_buffering off; }} }}
}}
"""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that answers, and where it does for each kind of load."""

    name: str
    child: Child
    urls: Mapping[Load, str]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One target under one kind of load for one round."""

    target: str
    load: Load
    round: int
    per_s: float
    """Complete answers per second."""
    p50_ms: float
    p99_ms: float
    target_cpu: float
    """Share of one core the target used."""
    stub_cpu: float
    others_on_proxy_core: float
    """Share of the proxy's core that went to processes which are no part of the benchmark."""
    others_on_load_core: float
    errors: int
    """Answers of status 400 and above, timeouts, broken connections."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """In how many TCP packets one stream reaches the client, counted by the kernel: no slow reader can blur it."""

    target: str
    packets_idle: float
    """With no other stream under way."""
    packets_loaded: float
    """Beside the benchmark's own load of streams."""


class Bench:
    """One run: the programs, the load, and where each of them is pinned."""

    def __init__(self, processes: Processes, *, proxy_core: int, load_core: int, connections: int, seed: int) -> None:
        self._processes = processes
        self._proxy_core = proxy_core
        self._load_core = load_core
        self._connections = connections
        self._runs = 0
        self._script = processes.directory / "load.lua"
        self._script.write_text(WRK_SCRIPT)
        self._bodies: dict[Load, Path] = {}
        for load in LOADS:
            self._bodies[load] = processes.directory / f"{load}.bodies"
            self._bodies[load].write_text("\n".join(bodies(load, random.Random(seed))) + "\n")

    def start_stub(self) -> Target:
        child, url = start_stub_worker(self._processes, cores={self._load_core})
        return Target("stub worker, no proxy", child, dict.fromkeys(LOADS, url))

    def start_nginx(self, worker_url: str) -> Target:
        ports: dict[str, Any] = {load: free_port() for load in LOADS}
        config = self._processes.directory / "nginx.conf"
        config.write_text(NGINX_CONFIG.format(worker=urlsplit(worker_url).netloc, **ports))
        command = ["nginx", "-e", "stderr", "-p", str(self._processes.directory), "-c", str(config)]
        child = self._processes.start("nginx", command, cores={self._proxy_core})
        for port in ports.values():
            child.wait_for_port(port)
        return Target("nginx", child, {load: f"http://127.0.0.1:{ports[load]}" for load in LOADS})

    def store_url(self) -> str:
        """An embedded store of its own."""
        return f"sqlite:///{self._processes.directory / 'keys.db'}"

    def build_shipped(self) -> Shipped:
        """The gateway as the image has it. Raises `ChildFailedError` where it cannot be built."""
        return build(self._processes.directory)

    def start_gateway(
        self,
        worker_url: str,
        *,
        name: str,
        implementation: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Target:
        child, url = start_gateway(
            self._processes,
            settings_before(worker_url, implementation=implementation, **(settings or {})),
            command=command,
            environment=environment,
            name="".join(letter if letter.isalnum() else "-" for letter in name),
            cores={self._proxy_core},
        )
        return Target(name, child, dict.fromkeys(LOADS, url))

    def measure(self, target: Target, stub: Target, load: Load, *, round_number: int, seconds: float) -> Measurement:
        """Put *load* on *target* for *seconds*."""
        before = self._busy_s(target, stub)
        said = self._start_wrk(target, load, seconds=seconds).wait(timeout_s=seconds + 30)
        found = json.loads(said[said.rindex("{") :])
        took_s = found["duration_us"] / 1e6
        share = {who: (busy_s - before[who]) / took_s for who, busy_s in self._busy_s(target, stub).items()}
        on_proxy_core = 0.0 if target is stub else share["target"]
        return Measurement(
            target=target.name,
            load=load,
            round=round_number,
            per_s=found["requests"] / took_s,
            p50_ms=found["p50_us"] / 1e3,
            p99_ms=found["p99_us"] / 1e3,
            target_cpu=share["target"],
            stub_cpu=share["stub"],
            others_on_proxy_core=max(0.0, share["proxy core"] - on_proxy_core),
            others_on_load_core=max(0.0, share["load core"] - share["stub"] - share["wrk"]),
            errors=found["errors"],
        )

    def _busy_s(self, target: Target, stub: Target) -> dict[str, float]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # wrk is the only child that ends in a round
        return {
            "target": target.child.cpu_s(),
            "stub": stub.child.cpu_s(),
            "wrk": ended.ru_utime + ended.ru_stime,
            "proxy core": core_busy_s(self._proxy_core),
            "load core": core_busy_s(self._load_core),
        }

    def watch_arrival(self, target: Target, stub: Target) -> Arrival:
        """How *target* cuts a stream into packets, idle and under load. Takes some seconds.

        The reader sits on the other core than the sender, as a proxy does before the stub worker: on the same core it
        would run too seldom to acknowledge, and packets would be merged.
        """
        body = bodies("streams", random.Random(0))[0].encode()
        with pinned({self._proxy_core if target is stub else self._load_core}):
            idle = packets_per_stream(target.urls["streams"], body)
            wrk = self._start_wrk(target, "streams", seconds=3)
            time.sleep(0.5)
            loaded = packets_per_stream(target.urls["streams"], body)
            wrk.wait(timeout_s=30)
        return Arrival(target.name, packets_idle=idle, packets_loaded=loaded)

    def _start_wrk(self, target: Target, load: Load, *, seconds: float) -> Child:
        self._runs += 1
        # wrk wants whole seconds.
        options = ["-t1", f"-c{self._connections}", f"-d{max(1, round(seconds))}", "-s", str(self._script)]
        command = ["wrk", *options, target.urls[load] + PATH, "--", str(self._bodies[load])]
        return self._processes.start(f"wrk-{self._runs}", command, cores={self._load_core})


def bodies(load: Load, rng: random.Random) -> list[str]:
    """The chat bodies a round goes through in turn: one system prompt, ``PROMPTS`` questions, 1.2 kB each."""
    system = _words(rng, SYSTEM_CHARACTERS)
    return [_body(system, _words(rng, USER_CHARACTERS), streams=load == "streams") for _ in range(PROMPTS)]


def _body(system: str, question: str, *, streams: bool) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    body = {"model": "tiny", "messages": messages, "max_tokens": EVENTS_PER_STREAM, "temperature": 0.7}
    return json.dumps({**body, "stream": True} if streams else body)


def _words(rng: random.Random, characters: int) -> str:
    letters = "".join(rng.choices("etaoinshrdlu    ", k=2 * characters))
    return " ".join(letters.split())[:characters]


def check_answers(target: Target) -> None:
    """One answer of each kind must come through whole.

    Raises:
        ChildFailedError: it does not; the message says what came instead.
    """
    rng = random.Random(0)
    headers = {"content-type": "application/json", "authorization": "Bearer benchmark"}
    with httpx.Client(timeout=10.0, headers=headers) as client:
        answer = client.post(target.urls["requests"] + PATH, content=bodies("requests", rng)[0])
        if answer.status_code != 200 or answer.json().get("object") != "chat.completion":
            raise ChildFailedError(f"{target.name} answered {answer.status_code}: {answer.text[:200]}")
        stream = client.post(target.urls["streams"] + PATH, content=bodies("streams", rng)[0])
    events = [line for line in stream.text.split("\n\n") if line.startswith("data: {") and '"choices":[{' in line]
    if len(events) != EVENTS_PER_STREAM or not stream.text.endswith("data: [DONE]\n\n"):
        raise ChildFailedError(f"{target.name} passed {len(events)} events of a stream: {stream.text[-200:]}")


def packets_per_stream(url: str, body: bytes, *, streams: int = ARRIVAL_STREAMS) -> float:
    """The mean number of TCP segments with data in which a streamed answer arrives."""
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


def two_cores() -> tuple[int, int]:
    """One core for the proxy, one for stub worker and load.

    Raises:
        ChildFailedError: this process may use only one.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise ChildFailedError("two cores are needed: one for the proxy, one for stub worker and load")
    return cores[0], cores[1]


def install_tools() -> None:
    """Make sure that ``wrk`` and ``nginx`` are there, by apt-get where they are not.

    Raises:
        ChildFailedError: they are not, and cannot be installed from here.
    """
    os.environ["PATH"] += os.pathsep + "/usr/sbin"  # where Debian puts nginx, and an ordinary user does not look
    missing = {tool: package for tool, package in (("wrk", "wrk"), ("nginx", "nginx-light")) if not shutil.which(tool)}
    if not missing:
        return
    wanted = f"{' and '.join(missing)} missing (Debian: apt-get install {' '.join(missing.values())})"
    if not shutil.which("apt-get"):
        raise ChildFailedError(f"{wanted}, and there is no apt-get here")
    if os.geteuid() != 0:
        raise ChildFailedError(f"{wanted}, and only root can install them")
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    try:
        subprocess.run([*apt, "update"], check=True, stdout=sys.stderr)
        subprocess.run([*apt, "install", *missing.values()], check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError as error:
        raise ChildFailedError(f"{wanted}; {shlex.join(error.cmd)} ended with {error.returncode}") from error


def tool_versions() -> dict[str, str]:
    wrk = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout.split()
    nginx = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=False).stderr.split("/")
    return {"wrk": wrk[1], "nginx": nginx[-1].strip()}


def ratios(found: Sequence[Measurement], target: str, load: Load) -> Spread:
    """The rate of *target* over nginx's in the same round."""
    limit = {m.round: m for m in found if m.target == "nginx" and m.load == load}
    return Spread.of(m.per_s / limit[m.round].per_s for m in found if m.target == target and m.load == load)


def beside(found: Sequence[Measurement], target: str, other: str, load: Load) -> Spread:
    """Answers of *target* per processor second over those of *other* in the same round."""
    of_other = {m.round: m.per_s / m.target_cpu for m in found if m.target == other and m.load == load}
    return Spread.of(m.per_s / m.target_cpu / of_other[m.round] for m in found if m.target == target and m.load == load)


def ratios_per_cpu(found: Sequence[Measurement], target: str, load: Load) -> Spread:
    """The same ratio of answers per processor second: free of what the other core could not deliver or take."""
    limit = {m.round: m.per_s / m.target_cpu for m in found if m.target == "nginx" and m.load == load}
    return Spread.of(m.per_s / m.target_cpu / limit[m.round] for m in found if m.target == target and m.load == load)


def load_table(found: Sequence[Measurement], targets: Sequence[str], load: Load, *, stub: str) -> Table:
    """One line per target: rate, ratios to nginx, latency, and how busy its core was."""
    rows: list[list[str | int | float | Spread | None]] = []
    for target in targets:
        of_target = [m for m in found if m.target == target and m.load == load]
        is_proxy = target != stub
        rows.append(
            [
                target,
                Spread.of(m.per_s for m in of_target),
                ratios(found, target, load) if is_proxy else None,
                Spread.of(m.p50_ms for m in of_target),
                Spread.of(m.p99_ms for m in of_target),
                Spread.of(m.target_cpu for m in of_target),
                ratios_per_cpu(found, target, load) if is_proxy else None,
                sum(m.errors for m in of_target),
            ]
        )
    what = {
        "requests": "Non-streaming requests",
        "streams": f"Streams of {EVENTS_PER_STREAM} events",
    }[load]
    columns = ("", "per s", "of nginx", "p50 ms", "p99 ms", "share of its core", "of nginx, per CPU s", "errors")
    return Table(f"{what}: median (lowest – highest) of the rounds", columns, rows)


def limits_of_the_setup(found: Sequence[Measurement], *, stub: str) -> list[str]:
    """What the reader must know where something else than the proxy was the limit."""
    on_proxy_core = Spread.of(m.others_on_proxy_core for m in found).median
    on_load_core = Spread.of(m.others_on_load_core for m in found).median
    if max(on_proxy_core, on_load_core) > 1 - BUSY_CORE:
        noise = f"{on_proxy_core:.0%} of the proxy's core and {on_load_core:.0%} of the other (medians of the rounds)"
        return [f"The machine was not quiet: processes outside the benchmark took {noise}. Not figures for the record."]
    notes = []
    for load in _loads(found):
        nginx = [m for m in found if m.target == "nginx" and m.load == load]
        share = Spread.of(m.target_cpu for m in nginx).median
        rate = Spread.of(m.per_s for m in nginx).median
        direct = Spread.of(m.per_s for m in found if m.target == stub and m.load == load).median
        if share < BUSY_CORE:
            notes.append(
                f"{load.capitalize()}: nginx used {share:.0%} of its core, at {rate / direct:.0%} of the rate of the "
                f"stub worker without a proxy. The other core (stub worker and wrk) was the limit: nginx could do "
                f"more, and the ratio by rate flatters the gateway. The ratio per CPU second does not."
            )
    return notes


def run(arguments: argparse.Namespace) -> Report:
    """Find what is needed on this machine, measure, and tell."""
    proxy_core, load_core = two_cores()
    install_tools()
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools=tool_versions())
    report = Report("overhead", "The gateway against nginx, one core each", circumstances)
    report.notes.append(
        f"{arguments.rounds} rounds of {arguments.seconds:g} s, {arguments.connections} connections, "
        f"{PROMPTS} prompts of 1.2 kB with a common system prompt. One proxy at work on one core (the others "
        f"idle), stub worker and wrk on another. nginx: one process, upstream keep-alive, no access log, buffering "
        f"off for streams. Gateway: prefix_aware, metrics and request log on."
    )
    with Processes() as processes, pinned({load_core}):
        bench = Bench(
            processes,
            proxy_core=proxy_core,
            load_core=load_core,
            connections=arguments.connections,
            seed=arguments.seed,
        )
        measure_all(bench, arguments, report)
    return report


def measure_all(bench: Bench, arguments: argparse.Namespace, report: Report) -> None:
    """Start everything, measure all rounds, and put what was found into *report*."""
    stub = bench.start_stub()
    worker_url = stub.urls["requests"]
    targets = [stub, bench.start_nginx(worker_url), *_gateways(bench, worker_url, arguments, report)]
    loads: tuple[Load, ...] = ("requests",) if arguments.keys_only else LOADS
    for target in targets:
        check_answers(target)
        for load in loads:
            bench.measure(target, stub, load, round_number=-1, seconds=WARM_UP_S)

    found: list[Measurement] = []
    for number in range(arguments.rounds):
        for load in loads:
            for target in targets:
                found.append(bench.measure(target, stub, load, round_number=number, seconds=arguments.seconds))
                latest = found[-1]
                print(f"round {number + 1} {load}: {target.name}: {latest.per_s:,.0f}/s", file=sys.stderr, flush=True)
    arrivals = [] if arguments.keys_only else [bench.watch_arrival(target, stub) for target in targets]
    fill(report, found, arrivals, stub=stub.name, judged=targets[2].name)


def fill(report: Report, found: Sequence[Measurement], arrivals: Sequence[Arrival], *, stub: str, judged: str) -> None:
    """Bars, tables and notes from the measurements; the bars are held against *judged*."""
    names = list(dict.fromkeys(m.target for m in found))
    loads = _loads(found)
    for load in loads:
        value = ratios(found, judged, load).median
        report.bars.append(Bar(f"{judged}: {load} per s, share of nginx's", value, ">=", MIN_NGINX_SHARE_OF_RATE[load]))
    with_keys = f"{judged}{WITH_KEYS}"
    if with_keys in names:
        value = beside(found, with_keys, judged, "requests").median
        report.bars.append(
            Bar("requests per s with a key and five limits, of without", value, ">=", MIN_SHARE_WITH_KEYS)
        )
    report.bars.append(Bar("failed answers", sum(m.errors for m in found), "==", 0))
    report.tables += [load_table(found, names, load, stub=stub) for load in loads]
    rows = [(arrival.target, arrival.packets_idle, arrival.packets_loaded) for arrival in arrivals]
    if rows:
        report.tables.append(Table("TCP packets per stream as the client gets it", ("", "idle", "under load"), rows))
    report.notes += limits_of_the_setup(found, stub=stub)
    report.figures |= {"measurements": list(found), "arrivals": list(arrivals)}


def _loads(found: Sequence[Measurement]) -> list[Load]:
    """Those that were measured, in their order."""
    return list(dict.fromkeys(m.load for m in found))


def _gateways(bench: Bench, worker_url: str, arguments: argparse.Namespace, report: Report) -> list[Target]:
    """As it is shipped, from the sources, and under other servers; the first, which is judged, must start."""
    first, *others = arguments.implementations.split(",")
    from_sources = f"gateway from the sources ({first})"
    gateways: list[Target] = []
    try:
        shipped = bench.build_shipped()
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        report.notes.append("The core could not be compiled here: what was measured is slower than what is shipped.")
    else:
        for name, settings in (("", {}), (WITH_KEYS, {**KEYS_AND_LIMITS, "store": {"url": bench.store_url()}})):
            gateways.append(
                bench.start_gateway(
                    worker_url,
                    name=f"gateway ({first}){name}",
                    implementation=first,
                    command=shipped.command,
                    environment=shipped.environment,
                    settings=settings,
                )
            )
        report.notes.append(
            "The gateway is the wheel that the image holds, its core compiled by mypyc; beside it the gateway from the "
            "sources, as `make run` starts it."
        )
    if gateways and arguments.keys_only:
        return gateways
    gateways.append(bench.start_gateway(worker_url, name=from_sources, implementation=first, command=arguments.gateway))
    for implementation in others:
        name = f"gateway from the sources ({implementation})"
        try:
            gateways.append(
                bench.start_gateway(worker_url, name=name, implementation=implementation, command=arguments.gateway)
            )
        except ChildFailedError as error:
            print(error, file=sys.stderr)
            report.notes.append(f"The gateway did not start under {implementation}.")
    return gateways


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("overhead", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of load per target, kind of load and round")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument(
        "--keys-only",
        action="store_true",
        help="just what keys and limits cost: the gateway as it is shipped, without and with them, by requests",
    )
    parser.add_argument("--implementations", default="uvicorn,granian", help="the bars are held against the first")
    add_gateway_option(parser)
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    return conclude("overhead", lambda: run(arguments), results=arguments.results, cannot_run=[ChildFailedError])


if __name__ == "__main__":
    sys.exit(main())
