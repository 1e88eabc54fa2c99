"""Trace of a sampled request, recorded while the request is served.

1. A request is in one phase at a time, which ends when the next phase begins. An attempt at a backend is not a phase.
   The span of an attempt lasts from the call until the reply is closed, and contains the span of the relay.
2. A trace never contains an API key. A trace contains the prompt and the answer, in `content`, only if a trace receiver
   is configured to get them.
3. Work that can wait is done after the request has ended.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from gateway.backends.backend import Call
from gateway.protocol.body import Body
from gateway.protocol.errors import GatewayError, UpstreamRefused, UpstreamTimeout
from gateway.protocol.request_hints import MAX_NAME_LENGTH
from gateway.protocol.session_identity import unscoped_session
from gateway.proxy.incoming import Incoming
from gateway.proxy.tracing.content import Content, Send
from gateway.proxy.tracing.context import HEADERS, TRACEPARENT, TRACESTATE, Context, traceparent
from gateway.proxy.tracing.labels import Labels, labels_of
from gateway.proxy.tracing.span import Span, SpanEvent, Value
from gateway.tenancy.teams.caller import Caller
from routing.booking import Booking, Ending
from routing.candidate import Candidate
from routing.dispatcher import Dispatch
from routing.explanation import predicted_ttft_s
from routing.request import Request

MAX_CANDIDATES = 5
"""Maximum number of candidate workers to list in a trace span."""


class Trace:
    """Spans and events of a request. Each method takes a few microseconds. No method is called for each chunk of a
    stream.
    """

    __slots__ = (
        "_attempt",
        "_clock",
        "_keeps_content",
        "_new_span_id",
        "_phase",
        "_relay",
        "_root_id",
        "began",
        "content",
        "events",
        "host",
        "labels",
        "max_tokens",
        "model_asked",
        "n",
        "parent",
        "project",
        "session",
        "spans",
        "trace_id",
        "wall_s",
    )

    def __init__(
        self,
        trace_id: int,
        parent: Context | None,
        *,
        began: float,
        wall_s: float,
        host: str | None = None,
        content: Content | None = None,
        keeps_content: Callable[[str | None], bool] = lambda _: False,
        clock: Callable[[], float],
        new_span_id: Callable[[], int],
    ) -> None:
        """Create a trace for a request that began at the monotonic time *began*, which is *wall_s* seconds after 1970.

        The prompt and answer in *content* are kept if *keeps_content* returns true for the caller's team.
        """
        self.trace_id = trace_id
        self.parent = parent
        self.began = began
        self.wall_s = wall_s
        self.host = host
        """Host name by which the caller reached the gateway, or None."""
        self.content = content
        self._keeps_content = keeps_content
        self._clock = clock
        self._new_span_id = new_span_id
        self._root_id = new_span_id()
        self.spans: list[Span] = []
        """Spans in the order of their start times, without the root span."""
        self.events: list[SpanEvent] = []
        self._phase: Span | None = None
        self._attempt: Span | None = None
        self._relay: Span | None = None
        self.project: str | None = None
        self.model_asked: str | None = None
        self.session: str | None = None
        self.max_tokens: int | None = None
        self.n = 1
        self.labels = Labels()
        """Labels that the caller has requested for its trace."""

    @property
    def span_id(self) -> int:
        """Id of the trace's root span."""
        return self._root_id

    # ---- phases

    def enter(self, phase: str | None) -> None:
        """End the span of the current phase, and begin a span for *phase* unless it is None."""
        now = self._clock()
        if self._phase is not None:
            self._phase.end(now)
        self._phase = None if phase is None else self._open(phase, now)

    def failed_here(self, error: str | None) -> None:
        """Record *error* on the span of the current phase. If *error* is None, do nothing."""
        if self._phase is not None and error is not None:
            self._phase.error = error

    def asked(self, incoming: Incoming, raw: bytes, body: Body, request: Request, caller: Caller | None) -> None:
        """Record the request and its body *raw*, as the caller sent it."""
        if caller is not None:
            self.project = caller.project
        self.model_asked = body.model[:MAX_NAME_LENGTH]
        self.session = unscoped_session(request.session, request.team) or body.session
        self.max_tokens = body.max_tokens
        self.n = body.n
        self.labels = labels_of(incoming.text_of, raw)
        if self.content is not None:
            if self._keeps_content(None if caller is None else caller.team_name):
                self.content.asked(raw, body.prompt)
            else:
                self.content = None
        self._note("warmgate.prompt.bytes", request.prompt_bytes)
        self._note("warmgate.prompt.tokens", round(request.prompt_tokens, 1))
        self._note("warmgate.prompt.blocks", request.prefix.blocks)
        self._note("warmgate.prompt.exact", bool(request.exact))

    def dispatched(self, dispatch: Dispatch) -> None:
        """Record the candidate workers with which the request left the queue, and end the queue phase."""
        phase, request = self._phase, dispatch.request
        if phase is None:
            return
        phase.attributes |= {
            "warmgate.strategy": dispatch.strategy,
            "warmgate.reason": dispatch.reason,
            "warmgate.candidates": len(dispatch.order),
            "warmgate.prompt.blocks": request.prefix.blocks,
            "warmgate.prompt.tokens": round(request.prompt_tokens, 1),
        }
        if dispatch.order:
            first = dispatch.order[:MAX_CANDIDATES]
            phase.attributes |= _decided(request, first[0], dispatch.booking) | {
                "warmgate.order.workers": [str(each.worker) for each in first],
                "warmgate.order.hit_tokens": [round(each.hit_tokens, 1) for each in first],
                "warmgate.order.backlog_s": [_seconds(each.load.backlog_s) for each in first],
                "warmgate.order.expected_ttft_s": [_seconds(predicted_ttft_s(request, each)) for each in first],
            }
        self.enter(None)

    # ---- attempts

    def attempt(
        self, call: Call, backend: str, kind: str, url: str | None = None, *, is_continued: bool = False
    ) -> Call:
        """Begin a span for an attempt at *backend*. Return *call* with a trace header that names this span as the
        parent.
        """
        self.enter(None)
        self.end_attempt(Ending.ABORTED)
        span = self._attempt = self._open("attempt" if kind == "worker" else "fallback", self._clock(), is_call=True)
        span.attributes |= {"warmgate.backend": backend, "warmgate.backend.kind": kind}
        if is_continued:
            span.attributes["warmgate.continued"] = True
        if url is not None:
            _address(span, url)
        headers = [header for header in call.headers if header[0] not in HEADERS]
        headers.append((TRACEPARENT, traceparent(self.trace_id, span.id, is_sampled=True)))
        if self.parent is not None and self.parent.state:
            headers.append((TRACESTATE, self.parent.state))
        return call.changed(headers=headers)

    def booked(self, request: Request, candidate: Candidate, booking: Booking | None) -> None:
        """Record the predictions for the worker *candidate* on the span of the attempt."""
        if self._attempt is not None:
            self._attempt.attributes |= _decided(request, candidate, booking)

    def prefill(self, url: str, request: Request, candidate: Candidate, booking: Booking | None) -> Span:
        """Begin and return a span for the prefill on the worker *candidate*. The caller must end this span."""
        parent_id = None if self._attempt is None else self._attempt.id
        span = self._open("prefill", self._clock(), parent_id=parent_id, is_call=True)
        span.attributes |= {"warmgate.backend": str(candidate.worker), "warmgate.backend.kind": "worker"}
        span.attributes |= _decided(request, candidate, booking)
        _address(span, url)
        return span

    def because(self, why: str) -> None:
        """Record *why* the request was sent to a fallback, which is the failure of the workers."""
        if self._attempt is not None:
            self._attempt.attributes["warmgate.why"] = why

    def first_byte(self, status: int) -> None:
        """Record the time of the first byte and the HTTP status, and begin the span of the relay."""
        span = self._attempt
        if span is not None:
            now = self._clock()
            span.attributes["http.response.status_code"] = status
            span.attributes["warmgate.first_byte_s"] = _seconds(now - span.began)
            self._relay = self._open("relay", now, parent_id=span.id)

    def failed(self, error: GatewayError) -> None:
        """Record *error* on the span of the attempt, without its text, because the text might quote the prompt."""
        for span in (self._attempt, self._relay):
            if span is not None:
                span.error = error.reason
        span = self._attempt
        if span is not None and isinstance(error, UpstreamTimeout):
            span.attributes["warmgate.timeout"] = error.phase
        elif span is not None and isinstance(error, UpstreamRefused):
            span.attributes["http.response.status_code"] = error.status

    def end_attempt(self, ending: Ending) -> None:
        """End the span of the current attempt, if any, with the outcome *ending*, after the reply is closed."""
        span, self._attempt = self._attempt, None
        if span is None:
            return
        relay, self._relay = self._relay, None
        now = self._clock()
        if relay is not None:
            relay.end(now)
        span.attributes["warmgate.outcome"] = ending.value
        span.end(now)

    def turned_away(self, backend: str, why: str) -> None:
        """Record that the fallback *backend* was skipped, and the reason *why*."""
        attributes: dict[str, Value] = {"warmgate.backend": backend, "warmgate.why": why}
        self.events.append(SpanEvent("fallback not asked", self._clock(), attributes))

    # ---- content

    def watching(self, send: Send) -> Send:
        """Return an ASGI send function that calls *send*, and keeps the answer if a trace receiver can get it."""
        return send if self.content is None else self.content.watching(send, lambda: self.content is not None)

    def _note(self, name: str, value: Value) -> None:
        if self._phase is not None:
            self._phase.attributes[name] = value

    def _open(self, name: str, now: float, *, parent_id: int | None = None, is_call: bool = False) -> Span:
        span = Span(
            self._new_span_id(),
            name,
            now,
            parent_id=self._root_id if parent_id is None else parent_id,
            kind="client" if is_call else "internal",
        )
        self.spans.append(span)
        return span


def _decided(request: Request, candidate: Candidate, booking: Booking | None) -> dict[str, Value]:
    """Return span attributes with the predictions for the worker *candidate*."""
    decided: dict[str, Value] = {
        "warmgate.worker": str(candidate.worker),
        "warmgate.hit.blocks": candidate.hit_blocks,
        "warmgate.hit.tokens": round(candidate.hit_tokens, 1),
        "warmgate.hit.source": candidate.source,
        "warmgate.load.backlog_s": _seconds(candidate.load.backlog_s),
        "warmgate.load.pending": candidate.load.pending,
        "warmgate.load.decodes": candidate.load.decodes,
        "warmgate.expected.ttft_s": _seconds(predicted_ttft_s(request, candidate)),
    }
    if booking is not None:
        decided["warmgate.expected.wait_s"] = _seconds(booking.wait_s)
        decided["warmgate.expected.prefill_s"] = _seconds(booking.work_s)
    return decided


def _address(span: Span, url: str) -> None:
    parts = urlsplit(url)
    if parts.hostname is not None:
        span.attributes["server.address"] = parts.hostname
        span.attributes["server.port"] = parts.port or (443 if parts.scheme == "https" else 80)


def _seconds(seconds: float) -> float:
    return round(seconds, 6)
