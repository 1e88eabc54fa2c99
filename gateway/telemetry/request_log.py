"""Request log with one JSON line per request: backend, latency, tokens and cache hits. It never contains prompts or
keys.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol, get_args

import msgspec

from gateway.protocol.timestamp import MILLISECONDS, tenths_as_json
from gateway.proxy.completed_requests import CompletedRequest
from gateway.proxy.exchange import Exchange
from routing.candidate import Source

_log = logging.getLogger(__name__)

_NULL: Final = "null"
_SOURCES: Final[dict[str | None, str]] = {None: _NULL, **{source: f'"{source}"' for source in get_args(Source)}}
_AS_A_RULE: Final = ',"guardrails":[],"error":null,"trace_id":null,"estimated_tokens":null'
"""End of a line in the request log that has no guardrails, error, trace id and estimated tokens."""


class Sink(Protocol):
    """Binary output file, such as ``sys.stdout.buffer``."""

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


class FieldGroup:
    """Log fields that rarely change between requests, so their JSON text is cached. The text begins with a comma."""

    __slots__ = ("_kept", "_most", "_names")

    def __init__(self, *names: str, most: int = 2048) -> None:
        """Cache the JSON of at most *most* combinations of values. A full cache is cleared."""
        self._names = names
        self._kept: dict[tuple[object, ...], str] = {}
        self._most = most

    def cached(self, values: tuple[object, ...]) -> str:
        """Return the JSON of *values*, which are in the order of the field names. The result is cached."""
        kept = self._kept.get(values)
        if kept is None:
            if len(self._kept) >= self._most:
                self._kept.clear()
            kept = self._kept[values] = self.encoded(values)
        return kept

    def encoded(self, values: tuple[object, ...]) -> str:
        """Return the JSON of *values* without caching, for values that rarely repeat."""
        return "," + msgspec.json.encode(dict(zip(self._names, values, strict=True)))[1:-1].decode()


class RequestLog:
    """Observer of completed requests that writes their log lines to *sink*. *wall_clock* returns Unix seconds.

    If the gateway has several processes, each line contains *process*, the number of this one.

    Each line is assembled from cached parts, because encoding all thirty fields takes twice as long and most of them
    repeat.
    """

    def __init__(self, sink: Sink, *, wall_clock: Callable[[], float], process: int | None = None) -> None:
        self._sink = sink
        self._wall_clock = wall_clock
        self._asked = FieldGroup("path", "team", "key", "model", "route", "rule", "status", "stream")
        self._served = FieldGroup("worker", "prefill_worker", "backend", "strategy", "reason", "attempts", "continued")
        self._rest = FieldGroup("guardrails", "error", "trace_id", "estimated_tokens")
        self._is_failing = False
        self._second = -1
        self._date = ""
        self._end = "}" if process is None else f',"process":{process}}}'

    def observe(self, completed: list[CompletedRequest]) -> None:
        """Write the log lines for *completed* requests with one system call."""
        time = self._time()
        lines = [self._line(time, ending) for ending in completed]
        lines.append("")
        try:
            self._sink.write("\n".join(lines).encode())
            self._sink.flush()
        except OSError as fault:  # a full disk, or a reader that has gone: requests are served all the same
            if not self._is_failing:
                _log.warning("Request log lines could not be written and are lost: %s", fault.strerror)
            self._is_failing = True
        else:
            self._is_failing = False

    def _time(self) -> str:
        """Return the current time in RFC 3339 format, in UTC with milliseconds.

        The date is formatted only once per second, because this takes as long as the rest of a line.
        """
        at = self._wall_clock()
        second = int(at)
        if second != self._second:
            self._second = second
            self._date = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return self._date + MILLISECONDS[int((at - second) * 1000.0)]

    def _line(self, time: str, ending: CompletedRequest) -> str:
        exchange = ending.exchange
        first, usage = exchange.first_byte, exchange.usage
        cached = None if usage is None else usage.cached_tokens
        predicted, regret = exchange.predicted_ttft_s, exchange.regret_s
        return (
            f'{{"time":"{time}","event":"request","request_id":"{_escaped(exchange.request_id)}"'
            f"{self._who_asked(exchange)}{self._who_served(exchange)}"
            f',"hit_blocks":{exchange.hit_blocks},"hit_tokens":{int(exchange.hit_tokens)}'
            f',"hit_source":{_SOURCES[exchange.hit_source]},"prompt_blocks":{exchange.prompt_blocks}'
            f',"queue_ms":{tenths_as_json(exchange.queued_s)}'
            f',"predicted_ttft_ms":{_NULL if predicted is None else tenths_as_json(predicted)}'
            f',"regret_ms":{_NULL if regret is None else tenths_as_json(regret)}'
            f',"ttft_ms":{_NULL if first is None else tenths_as_json(first - exchange.started)}'
            f',"duration_ms":{tenths_as_json(ending.at - exchange.started)}'
            f',"prompt_tokens":{_NULL if usage is None else str(usage.prompt_tokens)}'
            f',"cached_tokens":{_NULL if cached is None else str(cached)}'
            f',"completion_tokens":{_NULL if usage is None else str(usage.completion_tokens)}'
            f"{self._what_else(exchange)}{self._end}"
        )

    def _who_asked(self, exchange: Exchange) -> str:
        choice = exchange.choice
        return self._asked.cached(
            (
                exchange.path,
                exchange.team,
                exchange.key,
                exchange.model,
                None if choice is None else choice.route,
                None if choice is None else choice.rule,
                exchange.status,
                exchange.streams,
            )
        )

    def _who_served(self, exchange: Exchange) -> str:
        return self._served.cached(
            (
                exchange.backend,
                exchange.prefill_worker,
                exchange.served_by,
                exchange.strategy,
                exchange.reason,
                exchange.attempts,
                exchange.continued,
            )
        )

    def _what_else(self, exchange: Exchange) -> str:
        trace = exchange.trace
        estimated = exchange.estimated_tokens
        if trace is None and exchange.error is None and not exchange.guardrails and estimated is None:
            return _AS_A_RULE
        trace_id = None if trace is None else f"{trace.trace_id:032x}"
        return self._rest.encoded((exchange.guardrails, exchange.error, trace_id, estimated))


def _escaped(request_id: bytes) -> str:
    """Return *request_id* escaped for JSON. It is printable (see `request_id_of`), so few characters need an escape."""
    name = request_id.decode("ascii")
    if '"' in name or "\\" in name:
        return msgspec.json.encode(name)[1:-1].decode()
    return name
