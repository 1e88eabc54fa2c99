"""Main span of a request, with OpenTelemetry's attribute names for generative AI and HTTP.

The names follow ``opentelemetry-semantic-conventions`` 0.66b2, where those for generative AI are still experimental.
Token counts and cost appear only on this span, so that sums over a trace count each request once.
"""

from collections.abc import Mapping
from types import MappingProxyType

from gateway.proxy.exchange import Exchange
from gateway.proxy.tracing.span import Attributes, Span, Value
from gateway.telemetry.trace_export.delivery import CompletedTrace

_CHAT = "chat"
_OPERATIONS: Mapping[str, str] = MappingProxyType(
    {
        "/v1/chat/completions": _CHAT,
        "/v1/chat/completions/batch": _CHAT,
        "/v1/responses": _CHAT,
        "/v1/messages": _CHAT,
        "/v1/completions": "text_completion",
        "/v1/embeddings": "embeddings",
        "/v2/embed": "embeddings",
    }
)
_PROVIDERS: Mapping[str, str] = MappingProxyType({"worker": "openai", "openai": "openai", "bedrock": "aws.bedrock"})
"""Values of ``gen_ai.provider.name`` by kind of backend. The standard defines no name for self-hosted engines."""
_NOT_OURS = frozenset({"CallerGone", "Refused"})
"""Names of errors that neither the gateway nor a backend caused."""


def operation_of(path: str) -> str:
    """Return ``gen_ai.operation.name`` for a request path. For unknown paths, it is the last path segment."""
    return _OPERATIONS.get(path) or path.rpartition("/")[2]


def is_fault(exchange: Exchange) -> bool:
    """Return whether the gateway or a backend caused the failure of the request, as opposed to the client."""
    if exchange.error is None or exchange.error in _NOT_OURS:
        return False
    return exchange.status >= 500 or exchange.status < 400


def request_span(ended: CompletedTrace) -> Span:
    """Return the main span of a completed request, which contains all other spans."""
    exchange, trace = ended.exchange, ended.trace
    operation = operation_of(exchange.path)
    model = trace.model_asked or exchange.model
    parent_id = 0 if trace.parent is None else trace.parent.span_id
    name = f"{operation} {model}" if model is not None and exchange.model is not None else operation
    span = Span(trace.span_id, name, trace.began, parent_id=parent_id, kind="server")
    span.attributes = _known(
        {**_of_http(ended), **_of_model(ended, operation, model), **_of_caller(ended), **_own(ended)}
    )
    span.error = exchange.error if is_fault(exchange) else None
    span.end(ended.at)
    return span


def _of_http(ended: CompletedTrace) -> Mapping[str, Value | None]:
    exchange, host = ended.exchange, ended.trace.host
    name, _, port = (host or "").rpartition(":")
    has_port = bool(name) and port.isdecimal()
    return {
        "http.request.method": "POST",
        "http.route": exchange.path,
        "url.path": exchange.path,
        "http.response.status_code": exchange.status or None,
        "error.type": exchange.error,
        "server.address": name if has_port else host,
        "server.port": int(port) if has_port else None,
    }


def _of_model(ended: CompletedTrace, operation: str, model: str | None) -> Mapping[str, Value | None]:
    exchange, trace = ended.exchange, ended.trace
    usage, first = exchange.usage, exchange.first_byte
    answered_by = exchange.backend.partition(":")[2] if exchange.served_by == "bedrock" and exchange.backend else None
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS.get(exchange.served_by, exchange.served_by),
        "gen_ai.request.model": model,
        "gen_ai.request.stream": exchange.streams,
        "gen_ai.request.max_tokens": trace.max_tokens,
        "gen_ai.request.choice.count": trace.n if trace.n != 1 else None,
        "gen_ai.response.model": (answered_by or exchange.model) if exchange.error is None else None,
        "gen_ai.response.time_to_first_chunk": None if first is None else round(first - exchange.started, 6),
        "gen_ai.usage.input_tokens": None if usage is None else usage.prompt_tokens,
        "gen_ai.usage.output_tokens": None if usage is None else usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": None if usage is None else usage.cached_tokens,
        "gen_ai.conversation.id": trace.labels.session or trace.session,
    }


def _of_caller(ended: CompletedTrace) -> Mapping[str, Value | None]:
    exchange, labels = ended.exchange, ended.trace.labels
    return {
        "user.id": labels.user or exchange.user,
        "session.id": labels.session or ended.trace.session,
        "warmgate.team": exchange.team,
        "warmgate.key": exchange.key,
        "warmgate.project": ended.trace.project,
        "warmgate.refused_by": exchange.refused_by,
    }


def _own(ended: CompletedTrace) -> Mapping[str, Value | None]:
    exchange = ended.exchange
    choice = exchange.choice
    return {
        "warmgate.route": None if choice is None else choice.route,
        "warmgate.rule": None if choice is None else choice.rule,
        "warmgate.prefill": exchange.prefill,
        "warmgate.prefill.worker": exchange.prefill_worker,
        "warmgate.guardrails": list(exchange.guardrails) or None,
        "warmgate.request_id": exchange.request_id.decode("ascii"),
        "warmgate.backend": exchange.backend,
        "warmgate.backend.kind": exchange.served_by if exchange.backend is not None else None,
        "warmgate.strategy": exchange.strategy,
        "warmgate.reason": exchange.reason,
        "warmgate.attempts": exchange.attempts,
        "warmgate.continued": exchange.continued,
        "warmgate.fell_back": exchange.fell_back,
        "warmgate.hit.blocks": exchange.hit_blocks,
        "warmgate.hit.tokens": round(exchange.hit_tokens, 1),
        "warmgate.hit.source": exchange.hit_source,
        "warmgate.prompt.blocks": exchange.prompt_blocks,
        "warmgate.prompt.tokens": round(exchange.prompt_tokens, 1),
        "warmgate.cost_usd": exchange.cost_usd,
        "warmgate.saved_usd": exchange.saved_usd,
    }


def _known(values: Mapping[str, Value | None]) -> Attributes:
    return {name: value for name, value in values.items() if value is not None}
