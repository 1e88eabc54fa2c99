"""One line of JSON per request."""

import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.models.routes.route import RouteChoice
from gateway.protocol.timestamp import tenths_of_ms
from gateway.protocol.usage import Usage
from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.request_log import FieldGroup, RequestLog
from tests.gateway.examples import an_ended_request, an_exchange
from tests.gateway.telemetry.trace_export.examples import a_trace

SECONDS_OF_2026 = 1_767_225_600.0


class Sink(io.BytesIO):
    """Remembers how often it was written to and flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.flushes = 0

    def write(self, data: Any, /) -> int:
        self.writes += 1
        return super().write(data)

    def flush(self) -> None:
        self.flushes += 1

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def log(sink: Sink) -> RequestLog:
    return RequestLog(sink, wall_clock=lambda: SECONDS_OF_2026)


async def test_a_line_has_exactly_these_fields(log: RequestLog, sink: Sink) -> None:
    """Outside tools read them: names, order and units."""
    exchange = an_exchange(
        team="blue",
        key="ci",
        model="tiny",
        choice=RouteChoice("chat", "tiny", "long"),
        strategy="prefix_aware",
        reason="hit",
        streams=True,
        backend="w1",
        hit_blocks=3,
        hit_tokens=48.9,
        hit_source="reported",
        prompt_blocks=4,
        queued_s=0.02,
        predicted_ttft_s=0.2,
        regret_s=0.0151,
        attempts=2,
        status=200,
        guardrails=("pii:request:redact",),
        estimated_tokens=12,
        first_byte=100.25,
        usage=Usage(64, 9, 48),
    )
    exchange.trace = a_trace()
    exchange.trace.trace_id = 0x0AF7651916CD43DD8448EB211C80319C
    log.observe([CompletedRequest(exchange, 101.5)])
    expected = {
        "time": "2026-01-01T00:00:00.000Z",
        "event": "request",
        "request_id": "r-1",
        "path": "/v1/chat/completions",
        "team": "blue",
        "key": "ci",
        "model": "tiny",
        "route": "chat",
        "rule": "long",
        "status": 200,
        "stream": True,
        "worker": "w1",
        "prefill_worker": None,
        "backend": "worker",
        "strategy": "prefix_aware",
        "reason": "hit",
        "attempts": 2,
        "continued": 0,
        "hit_blocks": 3,
        "hit_tokens": 48,
        "hit_source": "reported",
        "prompt_blocks": 4,
        "queue_ms": 20.0,
        "predicted_ttft_ms": 200.0,
        "regret_ms": 15.1,
        "ttft_ms": 250.0,
        "duration_ms": 1500.0,
        "prompt_tokens": 64,
        "cached_tokens": 48,
        "completion_tokens": 9,
        "guardrails": ["pii:request:redact"],
        "error": None,
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "estimated_tokens": 12,
    }
    (line,) = sink.lines

    assert expected == line
    assert list(expected) == list(line)


async def test_what_is_not_known_is_null(log: RequestLog, sink: Sink) -> None:
    """A request that was refused at once still has all fields."""
    log.observe([an_ended_request(100.0004, status=404, error="UnknownModel")])
    (line,) = sink.lines

    assert {
        "team",
        "key",
        "model",
        "route",
        "rule",
        "worker",
        "prefill_worker",
        "trace_id",
        "estimated_tokens",
        "strategy",
        "reason",
        "hit_source",
        "predicted_ttft_ms",
        "regret_ms",
        "ttft_ms",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
    } == {name for name, value in line.items() if value is None}
    assert (404, "UnknownModel", 0.4) == (line["status"], line["error"], line["duration_ms"])


async def test_the_time_is_utc_to_the_millisecond(sink: Sink) -> None:
    """RFC 3339, whatever the time zone; also across the end of a second, and when the clock is set back.

    It is that of the writing, so lines that are written together have the same one.
    """
    seconds = iter([0.25, 0.9999, 1.0, 86_400.5, 0.125])
    log = RequestLog(sink, wall_clock=lambda: SECONDS_OF_2026 + next(seconds))
    for count in (1, 1, 1, 1, 2):
        log.observe([an_ended_request(101.0)] * count)

    assert [
        "2026-01-01T00:00:00.250Z",
        "2026-01-01T00:00:00.999Z",
        "2026-01-01T00:00:01.000Z",
        "2026-01-02T00:00:00.500Z",
        "2026-01-01T00:00:00.125Z",
        "2026-01-01T00:00:00.125Z",
    ] == [line["time"] for line in sink.lines]


async def test_lines_are_written_together(log: RequestLog, sink: Sink) -> None:
    """One system call for all that ended within the time, each line closed by a line end."""
    log.observe([an_ended_request(101.0, request_id=b"r-%d" % i) for i in range(100)])

    assert [f"r-{i}" for i in range(100)] == [line["request_id"] for line in sink.lines]
    assert sink.getvalue().endswith(b"}\n")
    assert (1, 1) == (sink.writes, sink.flushes)


async def test_whatever_stands_in_a_field_the_line_is_one_line(log: RequestLog, sink: Sink) -> None:
    """Names may be of any script, and hold quotes; a line end would forge a line."""
    log.observe([an_ended_request(101.0, model='模型-"é"\n{}', request_id=b'"}{')])

    assert 1 == sink.getvalue().count(b"\n")
    assert ('模型-"é"\n{}', '"}{') == (sink.lines[0]["model"], sink.lines[0]["request_id"])


NAMES = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COUNTS = st.integers(0, 2**40)
SECONDS = st.floats(0.0, 1e6)


@st.composite
def endings(draw: st.DrawFn) -> CompletedRequest:
    """Anything that a request may come to."""
    exchange = an_exchange(
        request_id=draw(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)).encode(),
        path=draw(NAMES) or "/v1/completions",
        team=draw(NAMES),
        key=draw(NAMES),
        model=draw(NAMES),
        choice=draw(st.none() | st.builds(RouteChoice, *[st.text(max_size=4)] * 3)),
        status=draw(st.integers(100, 599)),
        streams=draw(st.booleans()),
        backend=draw(NAMES),
        prefill_worker=draw(NAMES),
        served_by=draw(st.sampled_from(["worker", "openai", "bedrock"])),
        strategy=draw(NAMES),
        reason=draw(st.sampled_from([None, "hit", "spread", "cold", "none"])),
        attempts=draw(COUNTS),
        continued=draw(COUNTS),
        hit_blocks=draw(COUNTS),
        hit_tokens=draw(SECONDS),
        hit_source=draw(st.sampled_from([None, "reported", "predicted"])),
        prompt_blocks=draw(COUNTS),
        queued_s=draw(SECONDS),
        predicted_ttft_s=draw(st.none() | SECONDS),
        regret_s=draw(st.none() | SECONDS),
        first_byte=draw(st.none() | SECONDS.map(lambda after: 100.0 + after)),
        usage=draw(st.none() | st.builds(Usage, COUNTS, COUNTS, st.none() | COUNTS)),
        estimated_tokens=draw(st.none() | COUNTS),
        guardrails=tuple(draw(st.lists(st.text(max_size=4), max_size=2))),
        error=draw(NAMES),
    )
    if draw(st.booleans()):
        exchange.trace = a_trace()
        exchange.trace.trace_id = draw(st.integers(0, 2**128 - 1))
    return CompletedRequest(exchange, 100.0 + draw(SECONDS))


def as_an_encoder_has_it(ended: CompletedRequest) -> bytes:
    of, choice, usage = ended.exchange, ended.exchange.choice, ended.exchange.usage
    return msgspec.json.encode(
        {
            "time": "2026-01-01T00:00:00.000Z",
            "event": "request",
            "request_id": of.request_id.decode(),
            "path": of.path,
            "team": of.team,
            "key": of.key,
            "model": of.model,
            "route": choice and choice.route,
            "rule": choice and choice.rule,
            "status": of.status,
            "stream": of.streams,
            "worker": of.backend,
            "prefill_worker": of.prefill_worker,
            "backend": of.served_by,
            "strategy": of.strategy,
            "reason": of.reason,
            "attempts": of.attempts,
            "continued": of.continued,
            "hit_blocks": of.hit_blocks,
            "hit_tokens": int(of.hit_tokens),
            "hit_source": of.hit_source,
            "prompt_blocks": of.prompt_blocks,
            "queue_ms": tenths_of_ms(of.queued_s),
            "predicted_ttft_ms": None if of.predicted_ttft_s is None else tenths_of_ms(of.predicted_ttft_s),
            "regret_ms": None if of.regret_s is None else tenths_of_ms(of.regret_s),
            "ttft_ms": None if of.first_byte is None else tenths_of_ms(of.first_byte - of.started),
            "duration_ms": tenths_of_ms(ended.at - of.started),
            "prompt_tokens": usage and usage.prompt_tokens,
            "cached_tokens": usage and usage.cached_tokens,
            "completion_tokens": usage and usage.completion_tokens,
            "guardrails": of.guardrails,
            "error": of.error,
            "trace_id": of.trace and f"{of.trace.trace_id:032x}",
            "estimated_tokens": of.estimated_tokens,
        }
    )


@given(st.lists(endings(), min_size=1, max_size=3))
def test_a_line_is_what_an_encoder_would_write(ended: list[CompletedRequest]) -> None:
    """To the byte, though it is put together by hand; also when its pieces are those of a line before."""
    sink = Sink()
    log = RequestLog(sink, wall_clock=lambda: SECONDS_OF_2026)
    for _ in range(2):
        log.observe(ended)

    assert b"".join(as_an_encoder_has_it(each) + b"\n" for each in ended) * 2 == sink.getvalue()


def test_fields_are_kept_up_to_a_number_of_them() -> None:
    """Keys and workers may be many; whatever is kept, the answer is the same."""
    fields = FieldGroup("key", "status", most=2)
    answers = [fields.cached((key, 200)) for key in ("a", "b", "a", "c", "a")]

    assert [f',"key":"{key}","status":200' for key in ("a", "b", "a", "c", "a")] == answers
    assert {("c", 200), ("a", 200)} == set(fields._kept)


async def test_a_sink_that_fails_costs_its_lines_and_nothing_else(
    log: RequestLog, sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`warmgate serve | head`: requests are still served, and one warning is logged."""
    with monkeypatch.context() as broken:
        broken.setattr(sink, "write", _broken_pipe)
        for _ in range(3):
            log.observe([an_ended_request(101.0)])
    log.observe([an_ended_request(101.0, request_id=b"r-9")])

    assert ["Request log lines could not be written and are lost: Broken pipe"] == caplog.messages
    assert ["r-9"] == [line["request_id"] for line in sink.lines]


def _broken_pipe(_: bytes) -> int:
    raise BrokenPipeError(32, "Broken pipe")


def test_a_line_of_one_of_several_processes_names_it(sink: Sink) -> None:
    log = RequestLog(sink, wall_clock=lambda: SECONDS_OF_2026, process=2)
    log.observe([an_ended_request(101.0)])

    assert [2] == [line["process"] for line in sink.lines]
