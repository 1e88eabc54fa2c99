"""Traces as OTLP has them, protobuf: https://opentelemetry.io/docs/specs/otlp/, messages of ``opentelemetry-proto``.

The one module that needs the extra ``warmgate[otel]``; imported only where traces are sent somewhere.
"""

import functools
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from gateway.tracing.ended import Ended
from gateway.tracing.langfuse import langfuse_attributes
from gateway.tracing.messages import input_messages, output_messages
from gateway.tracing.request_span import request_span
from gateway.tracing.span import Attributes, Span, Value

SCOPE = "warmgate"
SHORT = 64
"""Characters of a value that is kept to be told again."""
_KINDS = {
    "internal": trace_pb2.Span.SPAN_KIND_INTERNAL,
    "server": trace_pb2.Span.SPAN_KIND_SERVER,
    "client": trace_pb2.Span.SPAN_KIND_CLIENT,
}
_OF_OTHERS = (
    *("warmgate.hit.", "warmgate.order.", "warmgate.expected.", "warmgate.load."),
    *("warmgate.reason", "warmgate.handover", "server.address", "server.port"),
)
"""How the names of attributes begin that say what workers hold, or have to do, of all teams together."""
_IS_REMOTE_KNOWN, _IS_REMOTE = 0x100, 0x200  # SpanFlags of trace.proto, on whether the parent is another process's


class Encoder:
    """Makes the messages of one destination. *resource* is what is true of all: the service, where it runs."""

    def __init__(
        self,
        resource: Mapping[str, str],
        version: str,
        *,
        tells_content: bool = False,
        for_langfuse: bool = False,
        is_teams: bool = False,
    ) -> None:
        """*is_teams*: it is a team's, and not the operator's."""
        self._resource = Resource(attributes=_attributes(dict(resource)))
        self._scope = InstrumentationScope(name=SCOPE, version=version)
        self._tells_content = tells_content
        self._for_langfuse = for_langfuse
        self._is_teams = is_teams

    def spans(self, ended: Ended) -> list[Any]:
        """All of one trace, that of the request first. Some 20 us for each."""
        trace, root = ended.trace, request_span(ended)
        if self._for_langfuse:
            root.attributes |= langfuse_attributes(ended)
        if self._tells_content:
            root.attributes |= _content(ended, for_langfuse=self._for_langfuse)
        told = [self._span(ended, span) for span in (root, *trace.spans)]
        for event in trace.events:
            told[0].events.add(
                name=event.name, time_unix_nano=_nanoseconds(ended, event.at), attributes=_attributes(event.attributes)
            )
        return told

    def message(self, spans: Iterable[Any]) -> bytes:
        """The body of a request to ``/v1/traces``."""
        scoped = trace_pb2.ScopeSpans(scope=self._scope, spans=spans)
        of_resource = trace_pb2.ResourceSpans(resource=self._resource, scope_spans=[scoped])
        data: bytes = ExportTraceServiceRequest(resource_spans=[of_resource]).SerializeToString()
        return data

    def _span(self, ended: Ended, span: Span) -> Any:
        trace, at = ended.trace, ended.at
        is_root = span.id == trace.span_id
        told = trace_pb2.Span(
            trace_id=trace.trace_id.to_bytes(16, "big"),
            span_id=span.id.to_bytes(8, "big"),
            parent_span_id=span.parent_id.to_bytes(8, "big") if span.parent_id else b"",
            trace_state=trace.parent.state.decode("latin-1") if trace.parent is not None else "",
            name=span.name,
            kind=_KINDS[span.kind],
            start_time_unix_nano=_nanoseconds(ended, span.began),
            end_time_unix_nano=_nanoseconds(ended, at if span.ended is None else span.ended),
            attributes=_attributes(self._told_of(span, ended)),
            flags=_IS_REMOTE_KNOWN | (_IS_REMOTE if is_root and trace.parent is not None else 0) | 0x01,
        )
        if span.error is not None:
            told.status.code = trace_pb2.Status.STATUS_CODE_ERROR
            told.status.message = span.error
            if "error.type" not in span.attributes:
                told.attributes.append(KeyValue(key="error.type", value=AnyValue(string_value=span.error)))
        return told

    def _told_of(self, span: Span, ended: Ended) -> Attributes:
        """A team is not told what was known of caches, and of what others do, unless its hits are its own."""
        if not self._is_teams or ended.exchange.shows_hits:
            return span.attributes
        return {name: value for name, value in span.attributes.items() if not name.startswith(_OF_OTHERS)}


def rejected_spans(body: bytes) -> int:
    """Of a message that was taken, the spans that were not, as its answer says."""
    try:
        answer = ExportTraceServiceResponse.FromString(body)
    except Exception:  # noqa: BLE001  # protobuf's own DecodeError; some servers answer 200 with JSON
        return 0
    return int(answer.partial_success.rejected_spans)


def _content(ended: Ended, *, for_langfuse: bool) -> Attributes:
    content = ended.trace.content
    if content is None:
        return {}
    told = {
        "gen_ai.input.messages": input_messages(content.request, content.most_bytes),
        "gen_ai.output.messages": output_messages(content.answer, content.most_bytes),
    }
    if for_langfuse:
        told["langfuse.observation.input"] = told["gen_ai.input.messages"]
        told["langfuse.observation.output"] = told["gen_ai.output.messages"]
    return {name: value for name, value in told.items() if value is not None}


def _nanoseconds(ended: Ended, at: float) -> int:
    """*at*, monotonic seconds, since 1970. In two parts: one float would be exact to 240 ns only."""
    return int(ended.trace.wall_s * 1e9) + int((at - ended.trace.began) * 1e9)


def _attributes(values: Mapping[str, Value]) -> list[Any]:
    return [_often(name, value) if _is_short(value) else _attribute(name, value) for name, value in values.items()]


def _is_short(value: Value) -> TypeGuard[str | bool | float]:
    return not isinstance(value, list) and (not isinstance(value, str) or len(value) <= SHORT)


def _attribute(name: str, value: Value) -> Any:
    return KeyValue(key=name, value=_value(value))


_often = functools.lru_cache(maxsize=4096, typed=True)(_attribute)
"""Most attributes have values that come again and again; making one takes 3 us, and whoever gets it makes a copy.
*typed*, as 1 and True are the same key else."""


def _value(value: str | bool | float | list[str] | list[int] | list[float]) -> Any:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=[_value(each) for each in value]))
