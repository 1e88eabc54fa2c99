"""The trace of one request."""

from typing import Any

import pytest

from gateway.backends.backend import Call
from gateway.protocol.body import parse_chat
from gateway.protocol.errors import ConnectFailed, ReplyBroken, UpstreamRefused, UpstreamTimeout
from gateway.proxy.incoming import Incoming
from gateway.proxy.tracing.content import Content
from gateway.proxy.tracing.trace import Trace
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team
from routing.booking import Booking, Ending
from tests.gateway.asgi import Caller as AsgiCaller
from tests.gateway.examples import CHAT, Clock, a_call
from tests.gateway.telemetry.trace_export.examples import PARENT, a_candidate, a_dispatch, a_trace
from tests.routing.examples import a_request


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def trace(clock: Clock) -> Trace:
    return a_trace(clock)


def spans(trace: Trace) -> list[tuple[str, float, float | None]]:
    return [(span.name, span.began, span.ended) for span in trace.spans]


def test_entering_a_phase_ends_the_one_before(trace: Trace, clock: Clock) -> None:
    trace.enter("authenticate")
    clock.now = 101.0
    trace.enter("parse")
    clock.now = 103.0
    trace.enter(None)
    trace.enter(None)

    assert [("authenticate", 100.0, 101.0), ("parse", 101.0, 103.0)] == spans(trace)
    assert {trace.span_id} == {span.parent_id for span in trace.spans}


def test_a_failure_is_recorded_on_its_phase(trace: Trace) -> None:
    """Without a phase or a failure there is nothing to record."""
    trace.failed_here("Stopping")
    trace.enter("parse")
    trace.failed_here(None)
    trace.enter("reserve")
    trace.failed_here("RateLimited")
    trace.enter("settle")

    assert [("parse", None), ("reserve", "RateLimited"), ("settle", None)] == [(s.name, s.error) for s in trace.spans]


def test_a_decision_is_recorded_with_its_numbers(trace: Trace) -> None:
    """Those of the chosen candidate, and those of the others in the order."""
    trace.enter("queue")
    trace.dispatched(a_dispatch(a_candidate("a", hit_tokens=48.0), a_candidate("b", backlog_s=0.5)))
    (span,) = trace.spans

    assert span.ended == 100.0
    assert {
        "warmgate.strategy": "prefix_aware",
        "warmgate.reason": "hit",
        "warmgate.candidates": 2,
        "warmgate.worker": "a",
        "warmgate.hit.blocks": 3,
        "warmgate.hit.tokens": 48.0,
        "warmgate.hit.source": "predicted",
        "warmgate.load.backlog_s": 0.0,
        "warmgate.load.pending": 1,
        "warmgate.load.decodes": 2,
        "warmgate.order.workers": ["a", "b"],
        "warmgate.order.hit_tokens": [48.0, 0.0],
        "warmgate.order.backlog_s": [0.0, 0.5],
    }.items() <= span.attributes.items()
    tokens = span.attributes["warmgate.prompt.tokens"]
    assert isinstance(tokens, float)
    expected_s = [0.01 + max(1.0, tokens - 48.0) * 0.001, 0.5 + 0.01 + tokens * 0.001]
    assert expected_s == pytest.approx(span.attributes["warmgate.order.expected_ttft_s"])
    assert expected_s[0] == pytest.approx(span.attributes["warmgate.expected.ttft_s"])


def test_only_the_first_candidates_are_recorded(trace: Trace) -> None:
    trace.enter("queue")
    trace.dispatched(a_dispatch(*(a_candidate(name) for name in "abcdefgh")))

    assert (8, ["a", "b", "c", "d", "e"]) == (
        trace.spans[0].attributes["warmgate.candidates"],
        trace.spans[0].attributes["warmgate.order.workers"],
    )


def test_a_decision_without_candidates_is_recorded(trace: Trace) -> None:
    """It has no worker. Without an open phase nothing is recorded."""
    trace.dispatched(a_dispatch())
    trace.enter("queue")
    trace.dispatched(a_dispatch())

    assert [(0, None)] == [
        (s.attributes["warmgate.candidates"], s.attributes.get("warmgate.worker")) for s in trace.spans
    ]


def test_the_backend_gets_the_attempt_as_its_parent() -> None:
    """It replaces the caller's header, whose span is the parent of the request."""
    trace = a_trace(parent=PARENT)
    call = Call(
        b"POST", b"/x", [(b"a", b"1"), (b"traceparent", b"its own"), (b"tracestate", b"old")], b"{}", False, "m"
    )
    sent = trace.attempt(call, "a", "worker", "http://10.0.0.5:8000")

    assert [
        (b"a", b"1"),
        (b"traceparent", b"00-%032x-%016x-01" % (0xABC, trace.spans[0].id)),
        (b"tracestate", b"shop=1"),
    ] == sent.headers
    assert (call.method, call.path, call.body, call.streams, call.model) == (
        sent.method,
        sent.path,
        sent.body,
        sent.streams,
        sent.model,
    )


def test_an_attempt_lasts_until_its_reply_is_closed(trace: Trace, clock: Clock) -> None:
    """The relay is a span inside it, from the first byte."""
    trace.attempt(a_call(), "a", "worker", "http://10.0.0.5:8000")
    booking = Booking(a_candidate("a").worker, a_request(), 0, 0.0, 0.25, 100.0)
    booking.wait_s = 0.125
    trace.booked(a_request(), a_candidate("a", hit_tokens=16.0), booking)
    clock.now = 100.5
    trace.first_byte(200)
    clock.now = 102.0
    trace.end_attempt(Ending.ANSWERED)
    attempt, relay = trace.spans

    assert [("attempt", 100.0, 102.0), ("relay", 100.5, 102.0)] == spans(trace)
    assert (("client", trace.span_id), ("internal", attempt.id)) == (
        (attempt.kind, attempt.parent_id),
        (relay.kind, relay.parent_id),
    )
    assert {
        "warmgate.backend": "a",
        "warmgate.backend.kind": "worker",
        "warmgate.worker": "a",
        "warmgate.hit.tokens": 16.0,
        "warmgate.expected.wait_s": 0.125,
        "warmgate.expected.prefill_s": 0.25,
        "warmgate.first_byte_s": 0.5,
        "warmgate.outcome": "answered",
        "http.response.status_code": 200,
        "server.address": "10.0.0.5",
        "server.port": 8000,
    }.items() <= attempt.attributes.items()


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (ConnectFailed("quotes the prompt"), {}),
        (UpstreamTimeout("quotes the prompt", phase="first_byte"), {"warmgate.timeout": "first_byte"}),
        (UpstreamRefused("quotes the prompt", status=429), {"http.response.status_code": 429}),
    ],
)
def test_a_failed_attempt_has_the_name_of_its_error(trace: Trace, error: Any, result: dict[str, Any]) -> None:
    """The text of the error is left out."""
    trace.attempt(a_call(), "a", "worker", "https://b.example.com")
    trace.failed(error)
    trace.end_attempt(Ending.FAILED)
    (span,) = trace.spans

    assert type(error).__name__ == span.error
    assert result.items() <= span.attributes.items()
    assert ("failed", 443) == (span.attributes["warmgate.outcome"], span.attributes["server.port"])
    assert "quotes" not in str(span.attributes)


def test_a_broken_relay_fails_the_attempt_too(trace: Trace) -> None:
    trace.attempt(a_call(), "a", "worker")
    trace.first_byte(200)
    trace.failed(ReplyBroken("cut"))
    trace.end_attempt(Ending.FAILED)

    assert ["ReplyBroken", "ReplyBroken"] == [span.error for span in trace.spans]


def test_the_next_attempt_ends_an_open_one(trace: Trace) -> None:
    """It ends the phase as well. Without an attempt nothing is recorded on one."""
    trace.failed(ReplyBroken("cut"))
    trace.because("NoWorker")
    trace.booked(a_request(), a_candidate("a"), None)
    trace.first_byte(200)
    trace.end_attempt(Ending.FAILED)
    trace.enter("wait")
    trace.attempt(a_call(), "a", "worker")
    trace.attempt(a_call(), "b", "openai", is_continued=True)
    trace.because("NoWorker")

    assert ["wait", "attempt", "fallback"] == [span.name for span in trace.spans]
    assert [100.0, 100.0, None] == [span.ended for span in trace.spans]
    assert "aborted" == trace.spans[1].attributes["warmgate.outcome"]
    assert ("NoWorker", True) == (
        trace.spans[2].attributes["warmgate.why"],
        trace.spans[2].attributes["warmgate.continued"],
    )


def test_a_prefill_is_inside_its_attempt(trace: Trace, clock: Clock) -> None:
    """Its caller ends it. Without an attempt it is inside the request."""
    outside = trace.prefill("http://10.0.0.7:8000", a_request(), a_candidate("p"), None)
    trace.attempt(a_call(), "a", "worker")
    inside = trace.prefill("http://10.0.0.7:8000", a_request(), a_candidate("p", hit_tokens=16.0), None)
    trace.end_attempt(Ending.ANSWERED)

    assert (trace.span_id, trace.spans[1].id) == (outside.parent_id, inside.parent_id)
    assert ("prefill", "client", None) == (inside.name, inside.kind, inside.ended)
    assert {
        "warmgate.backend": "p",
        "warmgate.worker": "p",
        "warmgate.hit.tokens": 16.0,
        "server.address": "10.0.0.7",
    }.items() <= inside.attributes.items()


def test_a_skipped_fallback_is_an_event(trace: Trace) -> None:
    trace.turned_away("bedrock:x", "rate")

    (event,) = trace.events
    assert ("fallback not asked", 100.0, {"warmgate.backend": "bedrock:x", "warmgate.why": "rate"}) == (
        event.name,
        event.at,
        event.attributes,
    )


def incoming(**headers: str) -> Incoming:
    listed = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Incoming(AsgiCaller(headers=listed).scope, AsgiCaller().receive)


def test_the_request_is_recorded(trace: Trace) -> None:
    """Its content is not part of that."""
    raw = b'{"model":"gpt-4o","max_tokens":5,"n":2,"messages":[{"role":"user","content":"hello"}]}'
    caller = Caller(Team(name="blue"), Key(id="ci", team="blue", digest="", project="search"))
    trace.enter("tokens")
    trace.asked(incoming(langfuse_session_id="s-1"), raw, parse_chat(raw), a_request("ab", session="c"), caller)

    assert ("search", "gpt-4o", "c", 5, 2, "s-1") == (
        trace.project,
        trace.model_asked,
        trace.session,
        trace.max_tokens,
        trace.n,
        trace.labels.session,
    )
    assert {"warmgate.prompt.blocks": 2, "warmgate.prompt.exact": False}.items() <= trace.spans[0].attributes.items()
    assert trace.content is None


@pytest.mark.parametrize(("keeps", "kept"), [(True, CHAT), (False, None)])
async def test_content_is_kept_for_teams_with_a_receiver(keeps: bool, kept: bytes | None) -> None:
    """The team is known after authentication."""
    asked_of: list[str | None] = []

    def keeps_content(team: str | None) -> bool:
        asked_of.append(team)
        return keeps

    trace = a_trace(content=Content(100), keeps_content=keeps_content)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    watched = trace.watching(send)
    trace.asked(incoming(), CHAT, parse_chat(CHAT), a_request(), None)
    await watched({"type": "http.response.body", "body": b"answer"})

    assert [None] == asked_of
    assert [{"type": "http.response.body", "body": b"answer"}] == sent
    assert kept == (None if trace.content is None else trace.content.request)
    assert trace.content is None or b"answer" == trace.content.answer


def test_without_content_the_answer_is_not_watched(trace: Trace) -> None:
    async def send(message: Any) -> None: ...

    assert send is trace.watching(send)
