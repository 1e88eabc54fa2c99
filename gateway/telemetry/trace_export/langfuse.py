"""Span attributes for Langfuse (``langfuse.*``), which Langfuse prefers to OpenTelemetry's standard attributes.

The names are those of Langfuse's SDKs (langfuse-python 4, ``_client/attributes.py``). The request is the only
observation of type generation, with tokens and cost. Its phases and attempts are spans.
"""

from datetime import UTC, datetime

import msgspec

from gateway.proxy.tracing.span import Attributes
from gateway.telemetry.trace_export.delivery import CompletedTrace
from gateway.telemetry.trace_export.request_span import is_fault

PATH = "/api/public/otel"
"""URL path at which Langfuse servers receive OpenTelemetry data."""


def langfuse_attributes(ended: CompletedTrace) -> Attributes:
    """Return the Langfuse attributes for the main span of a request."""
    exchange, trace, labels = ended.exchange, ended.trace, ended.trace.labels
    attributes: Attributes = {"langfuse.observation.type": "generation"}
    texts = {
        "langfuse.trace.name": labels.name,
        "langfuse.user.id": labels.user or exchange.user,
        "langfuse.session.id": labels.session or trace.session,
        "langfuse.observation.model.name": exchange.model or trace.model_asked,
        "langfuse.observation.status_message": exchange.error,
        "langfuse.trace.metadata.team": exchange.team,
        "langfuse.trace.metadata.key": exchange.key,
        "langfuse.trace.metadata.project": trace.project,
        "langfuse.trace.metadata.backend": exchange.backend,
        "langfuse.trace.metadata.strategy": exchange.strategy,
        "langfuse.trace.metadata.request_id": exchange.request_id.decode("ascii"),
        **{f"langfuse.trace.metadata.{name}": value for name, value in labels.metadata.items()},
    }
    attributes |= {name: value for name, value in texts.items() if value is not None}
    if labels.tags:
        attributes["langfuse.trace.tags"] = list(labels.tags)
    if exchange.error is not None:
        attributes["langfuse.observation.level"] = "ERROR" if is_fault(exchange) else "WARNING"
    if exchange.usage is not None:
        attributes["langfuse.observation.usage_details"] = _json(_usage_details(ended))
    if exchange.cost_usd:
        attributes["langfuse.observation.cost_details"] = _json({"total": exchange.cost_usd})
    if exchange.first_byte is not None:
        attributes["langfuse.observation.completion_start_time"] = _json(_moment(ended, exchange.first_byte))
    return attributes


def _usage_details(ended: CompletedTrace) -> dict[str, int]:
    """Return token counts by kind. The kinds must not overlap, because Langfuse adds the counts up."""
    usage = ended.exchange.usage
    assert usage is not None
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    details = {"input": usage.prompt_tokens - cached, "output": usage.completion_tokens}
    return {**details, "input_cached_tokens": cached} if cached else details


def _moment(ended: CompletedTrace, at: float) -> str:
    """Return the monotonic time *at* as a timestamp in ISO 8601 format, in UTC."""
    moment = datetime.fromtimestamp(ended.trace.wall_s + at - ended.trace.began, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
