"""The span of a request itself."""

import pytest

from gateway.models.routes.route import RouteChoice
from gateway.telemetry.trace_export.delivery import CompletedTrace
from gateway.telemetry.trace_export.request_span import is_fault, operation_of, request_span
from tests.gateway.examples import an_exchange
from tests.gateway.telemetry.trace_export.examples import PARENT, a_trace, answered


def test_it_is_called_by_what_was_asked_of_which_model() -> None:
    """From the beginning of the request to its end, within the caller's span."""
    ended = answered(parent=PARENT)
    ended.trace.model_asked = "gpt-4o"
    span = request_span(ended)

    assert ("chat gpt-4o", "server", 0xDEF, 100.0, 103.0, None) == (
        span.name,
        span.kind,
        span.parent_id,
        span.began,
        span.ended,
        span.error,
    )
    assert ended.trace.span_id == span.id


def test_a_name_that_is_no_model_stays_out_of_the_names_of_spans() -> None:
    """Unknown names come from the caller and may be many."""
    trace = a_trace()
    trace.model_asked = "made-up"
    span = request_span(CompletedTrace(an_exchange(status=404, error="UnknownModel"), trace, 101.0))

    assert ("chat", 0, "made-up", "UnknownModel") == (
        span.name,
        span.parent_id,
        span.attributes["gen_ai.request.model"],
        span.attributes["error.type"],
    )
    assert "gen_ai.response.model" not in span.attributes


def test_it_has_the_words_of_the_conventions() -> None:
    ended = answered(host="gw.example.com:8080")
    ended.trace.session, ended.trace.max_tokens, ended.trace.n = "c-1", 16, 2
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.stream": False,
        "gen_ai.request.max_tokens": 16,
        "gen_ai.request.choice.count": 2,
        "gen_ai.response.model": "tiny",
        "gen_ai.response.time_to_first_chunk": 2.5,
        "gen_ai.usage.input_tokens": 64,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 48,
        "gen_ai.conversation.id": "c-1",
        "session.id": "c-1",
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "server.address": "gw.example.com",
        "server.port": 8080,
        "warmgate.attempts": 2,
        "warmgate.cost_usd": 0.25,
        "warmgate.request_id": "r-1",
    }
    attributes = request_span(ended).attributes

    assert expected == {name: attributes.get(name) for name in expected}


@pytest.mark.parametrize(
    ("host", "address", "port"),
    [(None, None, None), ("gw", "gw", None), ("gw:80", "gw", 80), ("[::1]:80", "[::1]", 80), (":80", ":80", None)],
)
def test_the_address_is_the_callers(host: str | None, address: str | None, port: int | None) -> None:
    attributes = request_span(answered(host=host)).attributes

    assert (address, port) == (attributes.get("server.address"), attributes.get("server.port"))


def test_bedrock_is_called_by_its_own_names() -> None:
    ended = answered(an_exchange(model="tiny", backend="bedrock:qwen.q-v1:0", served_by="bedrock", status=200))
    attributes = request_span(ended).attributes

    assert ("aws.bedrock", "qwen.q-v1:0", "bedrock") == (
        attributes["gen_ai.provider.name"],
        attributes["gen_ai.response.model"],
        attributes["warmgate.backend.kind"],
    )


def test_it_says_who_else_had_a_word() -> None:
    """Routes, prefill workers and guardrails, where there are some."""
    exchange = an_exchange(
        model="tiny",
        status=200,
        choice=RouteChoice("chat", "tiny", "long"),
        prefill="remote",
        prefill_worker="p1",
        guardrails=("pii:request:redact",),
    )
    names = ("route", "rule", "prefill", "prefill.worker", "guardrails")
    result, plain = request_span(answered(exchange)).attributes, request_span(answered()).attributes

    assert ["chat", "long", "remote", "p1", ["pii:request:redact"]] == [result[f"warmgate.{name}"] for name in names]
    assert [] == [name for name in names if f"warmgate.{name}" in plain]


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/v1/messages", "chat"),
        ("/v1/completions", "text_completion"),
        ("/v1/embeddings", "embeddings"),
        ("/v1/rerank", "rerank"),
    ],
)
def test_operations_are_named_as_far_as_there_are_names(path: str, operation: str) -> None:
    assert operation == operation_of(path)


@pytest.mark.parametrize(
    ("status", "error", "fault"),
    [
        (200, None, False),
        (200, "ReplyBroken", True),
        (503, "NoWorker", True),
        (429, "RateLimited", False),
        (400, "Refused", False),
        (499, "CallerGone", False),
        (200, "CallerGone", False),
    ],
)
def test_what_the_caller_did_is_no_error_of_the_server(status: int, error: str | None, fault: bool) -> None:
    """Its span has no status then, as the conventions for HTTP have it; what it was stands in ``error.type``."""
    exchange = an_exchange(status=status, error=error)
    span = request_span(CompletedTrace(exchange, a_trace(), 101.0))

    assert fault == is_fault(exchange)
    assert (error if fault else None, error) == (span.error, span.attributes.get("error.type"))
