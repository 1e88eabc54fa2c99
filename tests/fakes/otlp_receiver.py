"""A receiver of OTLP/HTTP that decodes what it is sent with OpenTelemetry's own messages, and shows it."""

import asyncio
import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    name: str
    kind: int
    """1 internal, 2 server, 3 client, as in trace.proto."""
    trace_id: str
    id: str
    parent_id: str
    began_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    error: str | None
    state: str
    resource: dict[str, Any]


@dataclass
class OtlpReceiver:
    """Thread-safe enough for one gateway: lists are appended to by one thread and read by others."""

    url: str = ""
    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """To be answered to the next requests, with these headers; after them 200."""
    answer: bytes = b""
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[ReceivedSpan]:
        return [span for message in self.messages for span in decoded(message)]

    def trace(self, name: str) -> list[ReceivedSpan]:
        """The spans of the traces with a span that is called *name*."""
        ids = {span.trace_id for span in self.spans if span.name == name}
        return [span for span in self.spans if span.trace_id in ids]

    async def until(self, is_so: Callable[["OtlpReceiver"], bool], timeout_s: float = 10) -> None:
        async with asyncio.timeout(timeout_s):
            while not is_so(self):
                await asyncio.sleep(0.01)

    def wait(self, is_so: Callable[["OtlpReceiver"], bool], timeout_s: float = 10) -> None:
        until = time.monotonic() + timeout_s
        while not is_so(self):
            assert time.monotonic() < until, "it has not come"
            time.sleep(0.01)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str]]:
        self.paths.append(path)
        self.headers.append(headers)
        status, reported = self.statuses.pop(0) if self.statuses else (200, {})
        if status == 200:
            self.messages.append(gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body)
        return status, reported


def decoded(message: bytes) -> Iterator[ReceivedSpan]:
    """The spans of a message, in their order.

    Raises:
        google.protobuf.message.DecodeError: it is not one.
    """
    for of_resource in ExportTraceServiceRequest.FromString(message).resource_spans:
        resource = _values(of_resource.resource.attributes)
        for scoped in of_resource.scope_spans:
            for span in scoped.spans:
                yield ReceivedSpan(
                    name=span.name,
                    kind=span.kind,
                    trace_id=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    began_ns=span.start_time_unix_nano,
                    ended_ns=span.end_time_unix_nano,
                    attributes=_values(span.attributes),
                    events=[(event.name, _values(event.attributes)) for event in span.events],
                    error=span.status.message if span.status.code == 2 else None,
                    state=span.trace_state,
                    resource=resource,
                )


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """A receiver on a free port of this machine, in threads of its own."""
    receiver = OtlpReceiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            reported = {name.lower(): value for name, value in self.headers.items()}
            status, headers = receiver.take(self.path, reported, body)
            answer = receiver.answer if status == 200 else b""
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join(10)


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
