"""Cost of exporting traces with Warmgate's exporter and with OpenTelemetry's SDK, which run in turn in one process.

Both get the same completed requests, and send spans as gzipped protobuf to a receiver in another process. Warmgate uses
`Delivery`, and the SDK uses `BatchSpanProcessor` and `OTLPSpanExporter`. Each round measures the processor time of one
export, and the lag of an event loop in the same process during a second export. The SDK is not part of the gateway:
install it first with ``pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http``.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import importlib
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.processes import ChildFailedError, Processes
from benchmarks.report import Bar, Circumstances, Report, Spread, Table, argument_parser, conclude
from gateway.backends.backend import Call
from gateway.protocol.usage import Usage
from gateway.proxy.exchange import Exchange
from gateway.proxy.tracing.span import Span
from gateway.proxy.tracing.trace import Trace
from gateway.telemetry.trace_export.delivery import BATCH, CompletedTrace, Delivery
from gateway.telemetry.trace_export.otlp import Encoder, rejected_spans
from gateway.telemetry.trace_export.request_span import request_span
from gateway.telemetry.trace_export.sender import PATH, Sender
from routing.booking import Ending

MIN_CPU_RATIO = 1.0
"""Minimum processor time of the SDK divided by that of Warmgate. Below this ratio, Warmgate's exporter costs more."""
MIN_DELAY_RATIO = 2.0
"""Minimum 99th percentile of the loop's lag with the SDK, divided by that with Warmgate's exporter."""
TICK_S = 0.0005
NOTHING = "nothing is exported"
PHASES = ("authenticate", "receive", "parse", "tokenize", "reserve")
PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http", "opentelemetry-proto", "protobuf", "httpx")
RESOURCE = {"service.name": "warmgate", "service.version": "1", "service.instance.id": "a"}


class SdkMissingError(Exception):
    """Error for an SDK that is not installed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of one export, for all threads."""

    exporter: str
    us_per_span: float


@dataclass(frozen=True, slots=True)
class Delay:
    """Lag of the event loop during one export."""

    exporter: str
    median_ms: float
    p99_ms: float


def ended_requests(count: int, rng: random.Random) -> list[CompletedTrace]:
    """Return requests that one worker answered, each with its phases, a decision, an attempt and a relay."""
    return [_ended(rng) for _ in range(count)]


def _ended(rng: random.Random) -> CompletedTrace:
    now = [100.0]
    trace = Trace(
        rng.getrandbits(128),
        None,
        began=now[0],
        wall_s=1_767_225_600.0,
        host="gateway.example.com",
        clock=lambda: now[0],
        new_span_id=lambda: rng.getrandbits(64),
    )
    for phase in PHASES:
        trace.enter(phase)
        now[0] += rng.random() / 1000
    worker, hit = f"worker-{rng.randrange(8)}", rng.randrange(2000)
    call = Call(b"POST", b"/v1/chat/completions", [], b"{}", streams=True, model="llama-70b")
    trace.attempt(call, worker, "worker", "http://10.0.0.5:8000")
    trace.spans[-1].attributes |= {
        "warmgate.worker": worker,
        "warmgate.hit.blocks": hit // 16,
        "warmgate.hit.tokens": float(hit),
        "warmgate.hit.source": "predicted",
        "warmgate.load.backlog_s": round(rng.random(), 6),
        "warmgate.load.pending": rng.randrange(4),
        "warmgate.load.decodes": rng.randrange(32),
        "warmgate.expected.ttft_s": round(rng.random(), 6),
    }
    now[0] += rng.random()
    trace.first_byte(200)
    now[0] += rng.random()
    trace.end_attempt(Ending.ANSWERED)
    exchange = Exchange(b"%032x" % rng.getrandbits(128), "/v1/chat/completions", 100.0)
    exchange.model, exchange.team, exchange.key, exchange.backend = "llama-70b", "blue", "key-1", worker
    exchange.status, exchange.attempts, exchange.strategy, exchange.reason = 200, 1, "prefix_aware", "hit"
    exchange.hit_tokens, exchange.hit_blocks = float(hit), hit // 16
    exchange.usage, exchange.first_byte = Usage(4000, rng.randrange(500), hit), now[0] - 0.5
    exchange.trace = trace
    return CompletedTrace(exchange, trace, now[0])


class Ours:
    """Trace export of the gateway."""

    name = "ours"

    def __init__(self, endpoint: str) -> None:
        send = Sender(endpoint, {}, timeout_s=10.0, rejected=rejected_spans)
        self._delivery = Delivery("measured", Encoder(RESOURCE, "1"), send, collect_s=0.0)

    def hand_over(self, ended: Sequence[CompletedTrace]) -> None:
        for each in ended:
            self._delivery.offer(each)

    def finish(self, count: int) -> None:
        while self._delivery.counts["sent"] < count:
            time.sleep(0.01)
        self._delivery.counts.clear()

    def close(self) -> None:
        self._delivery.close(5.0)


class Sdk:
    """Trace export of OpenTelemetry's SDK with default settings, except gzip compression."""

    name = "SDK"

    def __init__(self, endpoint: str) -> None:
        """Set up the SDK. Raises SdkMissingError if the SDK is not installed."""
        try:
            http = importlib.import_module("opentelemetry.exporter.otlp.proto.http")
            exporter = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
            self._export = importlib.import_module("opentelemetry.sdk.trace.export")
            self._sdk = importlib.import_module("opentelemetry.sdk.trace")
            self._api = importlib.import_module("opentelemetry.trace")
            resources = importlib.import_module("opentelemetry.sdk.resources")
            scope = importlib.import_module("opentelemetry.sdk.util.instrumentation")
        except ImportError as error:
            raise SdkMissingError(f"{error}: see the head of benchmarks/trace_export.py") from error
        self._resource, self._scope = resources.Resource(RESOURCE), scope.InstrumentationScope("warmgate", "1")
        send = exporter.OTLPSpanExporter(endpoint + PATH, compression=http.Compression.Gzip)
        self._processor = self._export.BatchSpanProcessor(send, max_queue_size=1 << 16)
        self._kinds = {kind: self._api.SpanKind[kind.upper()] for kind in ("internal", "server", "client")}
        self._ok = self._api.Status()

    def hand_over(self, ended: Sequence[CompletedTrace]) -> None:
        for each in ended:
            for span in (request_span(each), *each.trace.spans):
                self._processor.on_end(self._readable(each, span))

    def finish(self, count: int) -> None:  # noqa: ARG002  # it knows what it has not sent
        self._processor.force_flush()

    def close(self) -> None:
        self._processor.shutdown()

    def _readable(self, ended: CompletedTrace, span: Span) -> Any:
        trace = ended.trace
        offset = int(trace.wall_s * 1e9)

        def nanoseconds(at: float) -> int:
            return offset + int((at - trace.began) * 1e9)

        def context(span_id: int) -> Any:
            return self._api.SpanContext(
                trace.trace_id, span_id, is_remote=False, trace_flags=self._api.TraceFlags(self._api.TraceFlags.SAMPLED)
            )

        return self._sdk.ReadableSpan(
            name=span.name,
            context=context(span.id),
            parent=context(span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            kind=self._kinds[span.kind],
            status=self._ok,
            start_time=nanoseconds(span.began),
            end_time=nanoseconds(ended.at if span.ended is None else span.ended),
            instrumentation_scope=self._scope,
        )


def cost(exporter: Ours | Sdk, ended: Sequence[CompletedTrace]) -> Cost:
    """Export *ended* and return the processor time of this process."""
    spans = sum(1 + len(each.trace.spans) for each in ended)
    began = time.process_time()
    exporter.hand_over(ended)
    exporter.finish(len(ended))
    return Cost(exporter.name, (time.process_time() - began) / spans * 1e6)


async def delay(exporter: Ours | Sdk | None, ended: Sequence[CompletedTrace]) -> Delay:
    """Export *ended* in a thread, or nothing, and return the lag of this event loop meanwhile."""
    late_s: list[float] = []

    def export() -> None:
        if exporter is None:
            time.sleep(0.25)
        else:
            exporter.hand_over(ended)
            exporter.finish(len(ended))

    work = asyncio.ensure_future(asyncio.to_thread(export))
    while not work.done():
        due = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        late_s.append(time.perf_counter() - due)
    await work
    late_s.sort()
    name = NOTHING if exporter is None else exporter.name
    return Delay(name, late_s[len(late_s) // 2] * 1e3, late_s[int(len(late_s) * 0.99)] * 1e3)


def run(arguments: argparse.Namespace) -> Report:
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES)
    report = Report("trace_export", "What the export of traces costs, beside OpenTelemetry's SDK", circumstances)
    rng = random.Random(arguments.seed)
    costs: list[Cost] = []
    delays: list[Delay] = []
    with Processes() as processes:
        sink = processes.start("sink", [sys.executable, "-m", "benchmarks.trace_sink"])
        endpoint = sink.wait_for_ready_line()
        exporters: list[Ours | Sdk] = [Ours(endpoint), Sdk(endpoint)]
        for exporter in exporters:
            cost(exporter, ended_requests(BATCH, rng))
        for _ in range(arguments.rounds):
            ended = ended_requests(arguments.requests, rng)
            costs += [cost(exporter, ended) for exporter in exporters]
            delays += [asyncio.run(delay(exporter, ended)) for exporter in (None, *exporters)]
        for exporter in exporters:
            exporter.close()
    fill(report, costs, delays)
    return report


def fill(report: Report, costs: Sequence[Cost], delays: Sequence[Delay]) -> None:
    """Write targets and tables from the measurements."""
    us = {name: [each.us_per_span for each in costs if each.exporter == name] for name in (Ours.name, Sdk.name)}
    medians = {name: [each.median_ms for each in delays if each.exporter == name] for name in (NOTHING, *us)}
    p99s = {name: [each.p99_ms for each in delays if each.exporter == name] for name in medians}
    report.bars += [
        Bar("processor time per span, SDK, of ours", min(us[Sdk.name]) / min(us[Ours.name]), ">=", MIN_CPU_RATIO),
        Bar(
            "99th percentile of the event loop's delay, SDK, of ours",
            min(p99s[Sdk.name]) / min(p99s[Ours.name]),
            ">=",
            MIN_DELAY_RATIO,
        ),
    ]
    report.tables += [
        Table(
            "Processor time per span, µs, all threads",
            ("", "best round", "median (lowest – highest) of the rounds"),
            [[name, min(values), Spread.of(values)] for name, values in us.items()],
        ),
        Table(
            "How late an event loop of the same process wakes up, ms",
            ("", "median, best round", "median", "99th percentile, best round", "99th percentile"),
            [
                [name, min(medians[name]), Spread.of(medians[name]), min(p99s[name]), Spread.of(p99s[name])]
                for name in medians
            ],
        ),
    ]
    report.notes += [
        "Ratios are of the best rounds, which other work on the machine changes least; the exporters take turns.",
        "The SDK encodes a batch of 512 spans in one piece: a loop that wakes up meanwhile waits for Python's lock, "
        "5 ms each time. Ours pauses for 1 ms after each request: an export takes longer and holds the loop less.",
        "The SDK's exporter adds the headers of `OTEL_EXPORTER_OTLP_HEADERS` to every destination, whatever headers it "
        "is given: an operator's credentials would reach the destinations of teams.",
        "The SDK brings nine packages that the gateway does not have, `requests` among them.",
    ]
    report.figures |= {"costs": list(costs), "delays": list(delays)}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("trace_export", __doc__ or "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=512, help="in a round")
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    return conclude(
        "trace_export",
        lambda: run(arguments),
        results=arguments.results,
        cannot_run=(SdkMissingError, ChildFailedError),
    )


if __name__ == "__main__":
    sys.exit(main())
