"""Traces as OTLP has them, read back by OpenTelemetry's own messages."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from gateway.proxy.tracing.content import Content
from gateway.telemetry.trace_export.delivery import CompletedTrace
from gateway.telemetry.trace_export.otlp import Encoder, rejected_spans
from tests.fakes.otlp_receiver import ReceivedSpan, decoded
from tests.gateway.examples import CHAT, WHOLE, an_exchange
from tests.gateway.telemetry.trace_export.examples import PARENT, a_trace, answered

NEW_YEAR_NS = 1_767_225_600_000_000_000


def received(
    *traces: CompletedTrace, content: bool = False, langfuse: bool = False, is_teams: bool = False
) -> list[ReceivedSpan]:
    encoder = Encoder({"service.name": "gw"}, "1.2", with_content=content, for_langfuse=langfuse, is_teams=is_teams)
    return list(decoded(encoder.message(span for ended in traces for span in encoder.spans(ended))))


def test_a_team_gets_hits_that_are_its_own() -> None:
    """Else of nothing that others have sent, or that their requests do to workers."""
    ended = answered()

    def names(*, is_teams: bool) -> set[str]:
        return {name for span in received(ended, is_teams=is_teams) for name in span.attributes}

    everything = names(is_teams=False)
    assert everything == names(is_teams=True)
    ended.exchange.shows_hits = False
    assert everything == names(is_teams=False)
    assert {"warmgate.hit.tokens", "warmgate.order.hit_tokens"} <= everything - names(is_teams=True)
    assert not [name for name in names(is_teams=True) if "hit" in name or "order" in name or "server." in name]


def test_a_trace_comes_as_it_was() -> None:
    """Ids, times, kinds, parents, faults; the span of the request first."""
    root, *spans = received(answered(parent=PARENT))
    trace_id = f"{0xABC:032x}"

    assert ("chat tiny", 2, trace_id, f"{1:016x}", f"{0xDEF:016x}", "shop=1", {"service.name": "gw"}) == (
        root.name,
        root.kind,
        root.trace_id,
        root.id,
        root.parent_id,
        root.state,
        root.resource,
    )
    assert (NEW_YEAR_NS, NEW_YEAR_NS + 3_000_000_000) == (root.began_ns, root.ended_ns)
    assert [
        ("queue", 1, root.id, 0.0, 1.0, None),
        ("attempt", 3, root.id, 1.0, 2.0, "ConnectFailed"),
        ("attempt", 3, root.id, 2.0, 3.0, None),
        ("relay", 1, spans[2].id, 2.5, 3.0, None),
    ] == [
        (
            span.name,
            span.kind,
            span.parent_id,
            (span.began_ns - NEW_YEAR_NS) / 1e9,
            (span.ended_ns - NEW_YEAR_NS) / 1e9,
            span.error,
        )
        for span in spans
    ]
    assert {trace_id} == {span.trace_id for span in spans}
    assert ("ConnectFailed", ["a", "b"], 2, True) == (
        spans[1].attributes["error.type"],
        spans[0].attributes["warmgate.order.workers"],
        root.attributes["warmgate.attempts"],
        root.attributes["warmgate.fell_back"] is False,
    )


def test_without_a_caller_that_traces_it_has_no_parent() -> None:
    assert "" == received(answered())[0].parent_id


def test_an_open_span_ends_with_the_request() -> None:
    trace = a_trace()
    trace.enter("reserve")
    trace.turned_away("bedrock:x", "rate")
    root, span = received(CompletedTrace(an_exchange(status=503, error="Stopping"), trace, 101.5))

    assert NEW_YEAR_NS + 1_500_000_000 == span.ended_ns
    assert "Stopping" == root.error
    assert [("fallback not asked", {"warmgate.backend": "bedrock:x", "warmgate.why": "rate"})] == root.events


def with_content() -> CompletedTrace:
    content = Content(1000)
    content.request = CHAT
    content._keep(WHOLE)
    return answered(content=content)


def test_content_goes_to_the_destinations_that_get_it() -> None:
    """Other destinations get none of it."""
    (result, *_), (plain, *_) = received(with_content(), content=True), received(with_content())

    assert "hello" in result.attributes["gen_ai.input.messages"]
    assert "Hello" in result.attributes["gen_ai.output.messages"]
    assert not any("hello" in str(value).lower() for value in plain.attributes.values())
    assert "gen_ai.input.messages" not in received(answered(), content=True)[0].attributes


def test_langfuse_gets_its_own_words() -> None:
    """Langfuse gets content too, if it is configured."""
    result = received(with_content(), content=True, langfuse=True)[0].attributes

    assert "generation" == result["langfuse.observation.type"]
    assert result["gen_ai.input.messages"] == result["langfuse.observation.input"]
    assert "langfuse.observation.input" not in received(with_content(), langfuse=True)[0].attributes


def test_several_traces_go_into_one_message() -> None:
    assert 10 == len(received(answered(), answered()))


@pytest.mark.parametrize(
    ("body", "rejected"),
    [
        (b"", 0),
        (
            ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=3)).SerializeToString(),
            3,
        ),
        (b'{"partialSuccess":{}}', 0),
    ],
)
def test_an_answer_says_how_many_were_rejected(body: bytes, rejected: int) -> None:
    """Some servers answer JSON whatever they were asked in."""
    assert rejected == rejected_spans(body)
