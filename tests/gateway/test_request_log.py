"""One line of JSON per request."""

import io
import json
from typing import Any

import pytest

from gateway.endings import EndedRequest
from gateway.request_log import RequestLog
from gateway.rollout.route import Choice
from gateway.usage import Usage
from tests.gateway.examples import an_ended_request, an_exchange
from tests.gateway.tracing.examples import a_trace

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
        choice=Choice("chat", "tiny", "long"),
        strategy="prefix_aware",
        reason="hit",
        streams=True,
        backend="w1",
        hit_blocks=3,
        hit_tokens=48.9,
        hit_source="confirmed",
        prompt_blocks=4,
        attempts=2,
        status=200,
        guardrails=("pii:request:redact",),
        first_byte=100.25,
        usage=Usage(64, 9, 48),
    )
    exchange.trace = a_trace()
    exchange.trace.trace_id = 0x0AF7651916CD43DD8448EB211C80319C
    log.observe([EndedRequest(exchange, 101.5)])
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
        "hit_source": "confirmed",
        "prompt_blocks": 4,
        "ttft_ms": 250.0,
        "duration_ms": 1500.0,
        "prompt_tokens": 64,
        "cached_tokens": 48,
        "completion_tokens": 9,
        "guardrails": ["pii:request:redact"],
        "error": None,
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
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
        "strategy",
        "reason",
        "hit_source",
        "ttft_ms",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
    } == {name for name, value in line.items() if value is None}
    assert (404, "UnknownModel", 0.4) == (line["status"], line["error"], line["duration_ms"])


async def test_the_time_is_utc_to_the_millisecond(sink: Sink) -> None:
    """RFC 3339, whatever the time zone; also across the end of a second, and when the clock is set back."""
    seconds = iter([0.25, 0.9999, 1.0, 86_400.5, 0.125])
    log = RequestLog(sink, wall_clock=lambda: SECONDS_OF_2026 + next(seconds))
    for _ in range(5):
        log.observe([an_ended_request(101.0)])

    assert [
        "2026-01-01T00:00:00.250Z",
        "2026-01-01T00:00:00.999Z",
        "2026-01-01T00:00:01.000Z",
        "2026-01-02T00:00:00.500Z",
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


async def test_a_sink_that_fails_costs_its_lines_and_nothing_else(
    log: RequestLog, sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`warmgate serve | head`: requests are served on, and the operator is told once."""
    with monkeypatch.context() as broken:
        broken.setattr(sink, "write", _broken_pipe)
        for _ in range(3):
            log.observe([an_ended_request(101.0)])
    log.observe([an_ended_request(101.0, request_id=b"r-9")])

    assert ["request lines are lost: Broken pipe"] == caplog.messages
    assert ["r-9"] == [line["request_id"] for line in sink.lines]


def _broken_pipe(_: bytes) -> int:
    raise BrokenPipeError(32, "Broken pipe")
