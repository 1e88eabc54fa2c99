"""One line of JSON per request: who answered, how fast, how much of it was cached. Never a prompt, never a key."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from gateway.endings import EndedRequest
from gateway.timestamp import MILLISECONDS, tenths_of_ms

_log = logging.getLogger(__name__)


class Sink(Protocol):
    """A binary file, such as ``sys.stdout.buffer``."""

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


class Line(msgspec.Struct):
    """The fields of a line, in their order."""

    time: str
    event: str
    request_id: str
    path: str
    team: str | None
    key: str | None
    model: str | None
    route: str | None
    rule: str | None
    status: int
    stream: bool
    worker: str | None
    prefill_worker: str | None
    backend: str
    strategy: str | None
    reason: str | None
    attempts: int
    continued: int
    hit_blocks: int
    hit_tokens: int
    hit_source: str | None
    prompt_blocks: int
    ttft_ms: float | None
    duration_ms: float
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    guardrails: tuple[str, ...]
    error: str | None
    trace_id: str | None


class RequestLog:
    """Writes lines to *sink*; an `Observer` of endings. *wall_clock* gives seconds since 1970."""

    def __init__(self, sink: Sink, *, wall_clock: Callable[[], float]) -> None:
        self._sink = sink
        self._wall_clock = wall_clock
        self._encode = msgspec.json.Encoder().encode
        self._is_failing = False
        self._second = -1
        self._date = ""

    def observe(self, endings: list[EndedRequest]) -> None:
        """Write the lines of *endings*, with one system call."""
        lines = [self._encode(self._line(ending)) for ending in endings]
        lines.append(b"")
        try:
            self._sink.write(b"\n".join(lines))
            self._sink.flush()
        except OSError as fault:  # a full disk, or a reader that has gone: requests are served all the same
            if not self._is_failing:
                _log.warning("request lines are lost: %s", fault.strerror)
            self._is_failing = True
        else:
            self._is_failing = False

    def _time(self) -> str:
        """RFC 3339 in UTC, to the millisecond.

        The date is made once a second: it costs as much as the rest of a line.
        """
        at = self._wall_clock()
        second = int(at)
        if second != self._second:
            self._second = second
            self._date = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return self._date + MILLISECONDS[int((at - second) * 1000.0)]

    def _line(self, ending: EndedRequest) -> Line:
        exchange = ending.exchange
        choice, first = exchange.choice, exchange.first_byte
        return Line(
            time=self._time(),
            event="request",
            request_id=exchange.request_id.decode("ascii"),
            path=exchange.path,
            team=exchange.team,
            key=exchange.key,
            model=exchange.model,
            route=None if choice is None else choice.route,
            rule=None if choice is None else choice.rule,
            status=exchange.status,
            stream=exchange.streams,
            worker=exchange.backend,
            prefill_worker=exchange.prefill_worker,
            backend=exchange.served_by,
            strategy=exchange.strategy,
            reason=exchange.reason,
            attempts=exchange.attempts,
            continued=exchange.continued,
            hit_blocks=exchange.hit_blocks,
            hit_tokens=int(exchange.hit_tokens),
            hit_source=exchange.hit_source,
            prompt_blocks=exchange.prompt_blocks,
            ttft_ms=None if first is None else tenths_of_ms(first - exchange.started),
            duration_ms=tenths_of_ms(ending.at - exchange.started),
            prompt_tokens=ending.prompt_tokens if ending.has_usage else None,
            cached_tokens=ending.cached_tokens,
            completion_tokens=ending.completion_tokens if ending.has_usage else None,
            guardrails=exchange.guardrails,
            error=exchange.error,
            trace_id=None if exchange.trace is None else f"{exchange.trace.trace_id:032x}",
        )
