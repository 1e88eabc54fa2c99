"""Encoder for traces as OTLP protobuf messages (https://opentelemetry.io/docs/specs/otlp/).

This is the only module that needs the extra ``warmgate[otel]``. It is imported only if a destination for traces is
configured.
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

from gateway.proxy.tracing.span import Attributes, Span, Value
from gateway.telemetry.trace_export.delivery import CompletedTrace
from gateway.telemetry.trace_export.langfuse import langfuse_attributes
from gateway.telemetry.trace_export.messages import input_messages, output_messages
from gateway.telemetry.trace_export.request_span import request_span

SCOPE = "warmgate"
SHORT = 64
"""Maximum length in characters of an attribute value in the cache."""
_KINDS = {
    "internal": trace_pb2.Span.SPAN_KIND_INTERNAL,
    "server": trace_pb2.Span.SPAN_KIND_SERVER,
    "client": trace_pb2.Span.SPAN_KIND_CLIENT,
}
_OF_OTHERS = (
    *("warmgate.hit.", "warmgate.order.", "warmgate.expected.", "warmgate.load."),
    *("warmgate.reason", "warmgate.handover", "server.address", "server.port"),
)
"""Prefixes of attributes that describe the cache contents and load of workers, which all teams share."""
_IS_REMOTE_KNOWN, _IS_REMOTE = 0x100, 0x200  # SpanFlags of trace.proto, on whether the parent is another process's


class Encoder:
    """Encoder of traces for one destination. *resource* describes the service and its environment."""

    def __init__(
        self,
        resource: Mapping[str, str],
        version: str,
        *,
        with_content: bool = False,
        for_langfuse: bool = False,
        is_teams: bool = False,
    ) -> None:
        """Create an encoder. *is_teams* means that the destination is a team's and must not see other teams' data."""
        self._resource = Resource(attributes=_attributes(dict(resource)))
        self._scope = InstrumentationScope(name=SCOPE, version=version)
        self._with_content = with_content
        self._for_langfuse = for_langfuse
        self._is_teams = is_teams

    def spans(self, ended: CompletedTrace) -> list[Any]:
        """Return all spans of one trace, the main span of the request first. Takes about 20 us per span."""
        trace, root = ended.trace, request_span(ended)
        if self._for_langfuse:
            root.attributes |= langfuse_attributes(ended)
        if self._with_content:
            root.attributes |= _content(ended, for_langfuse=self._for_langfuse)
        encoded = [self._span(ended, span) for span in (root, *trace.spans)]
        for event in trace.events:
            encoded[0].events.add(
                name=event.name, time_unix_nano=_nanoseconds(ended, event.at), attributes=_attributes(event.attributes)
            )
        return encoded

    def message(self, spans: Iterable[Any]) -> bytes:
        """Return a message that contains *spans*, as the body of a request to ``/v1/traces``."""
        scoped = trace_pb2.ScopeSpans(scope=self._scope, spans=spans)
        of_resource = trace_pb2.ResourceSpans(resource=self._resource, scope_spans=[scoped])
        data: bytes = ExportTraceServiceRequest(resource_spans=[of_resource]).SerializeToString()
        return data

    def _span(self, ended: CompletedTrace, span: Span) -> Any:
        trace, at = ended.trace, ended.at
        is_root = span.id == trace.span_id
        encoded = trace_pb2.Span(
            trace_id=trace.trace_id.to_bytes(16, "big"),
            span_id=span.id.to_bytes(8, "big"),
            parent_span_id=span.parent_id.to_bytes(8, "big") if span.parent_id else b"",
            trace_state=trace.parent.state.decode("latin-1") if trace.parent is not None else "",
            name=span.name,
            kind=_KINDS[span.kind],
            start_time_unix_nano=_nanoseconds(ended, span.began),
            end_time_unix_nano=_nanoseconds(ended, at if span.ended is None else span.ended),
            attributes=_attributes(self._visible(span, ended)),
            flags=_IS_REMOTE_KNOWN | (_IS_REMOTE if is_root and trace.parent is not None else 0) | 0x01,
        )
        if span.error is not None:
            encoded.status.code = trace_pb2.Status.STATUS_CODE_ERROR
            encoded.status.message = span.error
            if "error.type" not in span.attributes:
                encoded.attributes.append(KeyValue(key="error.type", value=AnyValue(string_value=span.error)))
        return encoded

    def _visible(self, span: Span, ended: CompletedTrace) -> Attributes:
        """Return the attributes of *span* that the destination is allowed to see. Only the operator sees attributes
        about other teams.
        """
        if not self._is_teams or ended.exchange.shows_hits:
            return span.attributes
        return {name: value for name, value in span.attributes.items() if not name.startswith(_OF_OTHERS)}


def rejected_spans(body: bytes) -> int:
    """Return the number of spans that the receiver rejected, according to its response to an accepted message."""
    try:
        answer = ExportTraceServiceResponse.FromString(body)
    except Exception:  # noqa: BLE001  # protobuf's own DecodeError; some servers answer 200 with JSON
        return 0
    return int(answer.partial_success.rejected_spans)


def _content(ended: CompletedTrace, *, for_langfuse: bool) -> Attributes:
    content = ended.trace.content
    if content is None:
        return {}
    encoded = {
        "gen_ai.input.messages": input_messages(content.request, content.max_bytes),
        "gen_ai.output.messages": output_messages(content.answer, content.max_bytes),
    }
    if for_langfuse:
        encoded["langfuse.observation.input"] = encoded["gen_ai.input.messages"]
        encoded["langfuse.observation.output"] = encoded["gen_ai.output.messages"]
    return {name: value for name, value in encoded.items() if value is not None}


def _nanoseconds(ended: CompletedTrace, at: float) -> int:
    """Return the monotonic time *at* as Unix nanoseconds. The sum has two parts, because one float is only exact to 240
    ns.
    """
    return int(ended.trace.wall_s * 1e9) + int((at - ended.trace.began) * 1e9)


def _attributes(values: Mapping[str, Value]) -> list[Any]:
    return [_often(name, value) if _is_short(value) else _attribute(name, value) for name, value in values.items()]


def _is_short(value: Value) -> TypeGuard[str | bool | float]:
    return not isinstance(value, list) and (not isinstance(value, str) or len(value) <= SHORT)


def _attribute(name: str, value: Value) -> Any:
    return KeyValue(key=name, value=_value(value))


_often = functools.lru_cache(maxsize=4096, typed=True)(_attribute)
"""Cached version of `_attribute`, because most attribute values repeat and each takes 3 us. Protobuf copies the result.
*typed* distinguishes 1 from True.
"""


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
