"""Compact form of a receipt: references to strings that many requests share, and numbers packed in bytes.

A receipt takes about 400 bytes with three candidates and 800 bytes with eight. Packing it takes less than a microsecond
when this module is compiled.
`receipt.py` turns a record into a `Receipt` when somebody reads it.
"""

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_le,
    read_f64_le,
    read_i32_le,
    write_f32_le,
    write_f64_le,
    write_i16_le,
    write_i32_le,
)

from cache_index.native import mypyc_attr
from gateway.proxy.decision import REPORTED, UNKNOWN, Decision
from gateway.proxy.exchange import Exchange
from gateway.proxy.tracing.trace import Trace

HEAD: Final = "<dfi10f5i3hB"
"""Format of the numbers of a request, for the module `struct`: start in seconds since 1970, duration, status, then
seconds, tokens and costs, then counts, and flags. See `_write_head` for the order.
"""
STREAMS: Final = 1
FELL_BACK: Final = 2
MAX_SPANS: Final = 32
"""Maximum number of spans of a trace to keep in a receipt."""
NO_WORKERS: Final[tuple[str, ...]] = ()
MAX_NAMES: Final = 256
"""Maximum number of different sequences of span names to share, and of workers."""
MAX_SHARED_WORKERS: Final = 3
"""Maximum length of a sequence of workers to share. Longer ones have many orders, and rarely repeat."""
_MAX_I32: Final = 2**31 - 1
_MAX_I16: Final = 2**15 - 1
_DURATION: Final = 8
_STATUS: Final = 12


@mypyc_attr(acyclic=True)
class Rare:
    """Facts that few requests have."""

    __slots__ = ("excluded", "failures", "guardrails", "prefill", "prefill_worker", "refused_by", "spans", "trace_id")

    def __init__(self, exchange: Exchange, trace_id: int | None, spans: tuple[tuple[str, ...], bytes] | None) -> None:
        decision = exchange.decision
        self.excluded = None if decision is None else decision.excluded
        self.failures = exchange.failures
        self.guardrails = exchange.guardrails
        self.prefill = exchange.prefill
        self.prefill_worker = exchange.prefill_worker
        self.refused_by = exchange.refused_by
        self.spans = spans
        """Names of the trace's spans, and for each span two numbers of four bytes: start and duration in seconds."""
        self.trace_id = trace_id


@mypyc_attr(acyclic=True)
class Record:
    """Facts about one completed request. It contains no text of the request."""

    __slots__ = (
        "backend",
        "error",
        "key",
        "model",
        "numbers",
        "rare",
        "reason",
        "request_id",
        "served_by",
        "session",
        "strategy",
        "team",
        "workers",
    )

    def __init__(self, exchange: Exchange, workers: tuple[str, ...], numbers: bytes, rare: Rare | None) -> None:
        self.request_id = exchange.request_id
        self.team = exchange.team
        self.key = exchange.key
        self.model = exchange.model
        self.session = exchange.session
        self.strategy = exchange.strategy
        self.reason: str | None = exchange.reason
        self.backend = exchange.backend
        self.served_by = exchange.served_by
        self.error = exchange.error
        self.workers = workers
        """Kept candidates, in the order in which they were to be tried."""
        self.numbers = numbers
        """Numbers of the request in the format `HEAD`, and then those of the decision for each candidate."""
        self.rare = rare

    @property
    def began_at(self) -> float:
        """Start of the request in seconds since 1970."""
        return read_f64_le(self.numbers, 0)

    @property
    def duration_s(self) -> float:
        return read_f32_le(self.numbers, _DURATION)

    @property
    def status(self) -> int:
        return read_i32_le(self.numbers, _STATUS)


class Packer:
    """Conversion of completed requests into records. It uses one buffer for all requests."""

    def __init__(self) -> None:
        self._writer = BytesWriter()
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Names of spans, so that requests with the same spans share one tuple. It is cleared when it is full."""
        self._workers: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Workers, as for the names of spans."""

    def record(self, exchange: Exchange, ended: float, began_at: float) -> Record:
        """Return the record of the request *exchange*, which began at *began_at*, in seconds since 1970, and ended at
        *ended*, in monotonic seconds.
        """
        writer = self._writer
        writer.truncate(0)
        decision = exchange.decision
        if decision is None:
            _write_head(writer, exchange, ended, began_at, UNKNOWN, 0, 0)
            return Record(exchange, NO_WORKERS, writer.getvalue(), self._rare(exchange))
        _write_head(
            writer, exchange, ended, began_at, hindsight_cost_s(exchange, decision), decision.count, decision.ranked
        )
        writer.write(decision.numbers)
        workers = decision.workers
        if len(workers) <= MAX_SHARED_WORKERS:
            workers = self._shared(workers)
        return Record(exchange, workers, writer.getvalue(), self._rare(exchange))

    def _shared(self, workers: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tuple that all records with these *workers* share. The garbage collector then has less to do."""
        kept = self._workers.get(workers)
        if kept is None:
            if len(self._workers) >= MAX_NAMES:
                self._workers.clear()
            self._workers[workers] = kept = workers
        return kept

    def _rare(self, exchange: Exchange) -> Rare | None:
        trace, decision = exchange.trace, exchange.decision
        if trace is None:
            left_out = None if decision is None else decision.excluded
            has_more = exchange.failures or exchange.guardrails or exchange.prefill is not None
            has_rare = left_out is not None or exchange.refused_by is not None or has_more
            return Rare(exchange, None, None) if has_rare else None
        return Rare(exchange, trace.trace_id, self._spans(trace))

    def _spans(self, trace: Trace) -> tuple[tuple[str, ...], bytes]:
        spans = trace.spans[:MAX_SPANS]
        writer = BytesWriter()
        for span in spans:
            write_f32_le(writer, span.began - trace.began)
            ended = span.ended
            write_f32_le(writer, UNKNOWN if ended is None else ended - span.began)
        names = tuple([span.name for span in spans])
        kept = self._names.get(names)
        if kept is None:
            if len(self._names) >= MAX_NAMES:
                self._names.clear()
            self._names[names] = kept = names
        return kept, writer.getvalue()


def hindsight_cost_s(exchange: Exchange, decision: Decision) -> float:
    """Return the cost in seconds of the chosen worker, which is the first candidate, or NaN without a candidate.

    The cost is computed with the cache hit that the engine reported, in place of the predicted hit. The predicted hit
    counts if the engine reported no hit, or if the reported hit does not belong to the decision, because another worker
    answered, continued the answer, or computed the prompt.
    """
    own_s, usage = decision.chosen_cost_s, exchange.usage
    if usage is None or exchange.attempts != 1 or exchange.continued or not decision.workers:
        return own_s
    reported = usage.cached_tokens
    if reported is None or exchange.prefill == "remote" or exchange.backend != decision.workers[0]:
        return own_s
    predicted = max(1.0, decision.prompt_tokens - decision.chosen_hit_tokens)
    actual = max(1.0, decision.prompt_tokens - float(reported))
    return own_s + (actual - predicted) * decision.chosen_prefill_s_per_token * decision.price


def _write_head(  # noqa: PLR0917  # in the order of writing
    writer: BytesWriter,
    exchange: Exchange,
    ended: float,
    began_at: float,
    hindsight_s: float,
    candidates: int,
    ranked: int,
) -> None:
    started, first, decision, usage = exchange.started, exchange.first_byte, exchange.decision, exchange.usage
    predicted_s = exchange.predicted_ttft_s
    write_f64_le(writer, began_at)
    write_f32_le(writer, ended - started)
    write_i32_le(writer, _i32(exchange.status))
    write_f32_le(writer, UNKNOWN if first is None else first - started)
    write_f32_le(writer, UNKNOWN if decision is None else decision.at - started)
    write_f32_le(writer, exchange.queued_s)
    write_f32_le(writer, UNKNOWN if predicted_s is None else predicted_s)
    write_f32_le(writer, hindsight_s)
    write_f32_le(writer, UNKNOWN if decision is None else decision.price)
    write_f32_le(writer, exchange.hit_tokens)
    write_f32_le(writer, exchange.prompt_tokens)
    write_f32_le(writer, exchange.cost_usd)
    write_f32_le(writer, exchange.saved_usd)
    write_i32_le(writer, -1 if usage is None else _i32(usage.prompt_tokens))
    cached = None if usage is None else usage.cached_tokens
    write_i32_le(writer, -1 if cached is None else _i32(cached))
    write_i32_le(writer, -1 if usage is None else _i32(usage.completion_tokens))
    write_i32_le(writer, _i32(exchange.prompt_blocks))
    write_i32_le(writer, _i32(candidates))
    write_i16_le(writer, _i16(exchange.attempts))
    write_i16_le(writer, _i16(exchange.continued))
    write_i16_le(writer, _i16(ranked))
    flags = STREAMS if exchange.streams else 0
    if exchange.fell_back:
        flags |= FELL_BACK
    if exchange.hit_source == "reported":
        flags |= REPORTED
    writer.append(flags)


def _i32(number: int) -> int:
    return min(number, _MAX_I32)


def _i16(number: int) -> int:
    return min(number, _MAX_I16)
