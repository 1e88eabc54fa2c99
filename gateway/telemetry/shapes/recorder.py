"""Record the shapes of requests: times, sizes and shared prefixes, without text and without hashes."""

import math
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from librt.strings import BytesWriter, write_f32_le, write_f64_le, write_i32_le, write_i64_le

from gateway.proxy.completed_requests import CompletedRequest
from gateway.proxy.exchange import Exchange
from gateway.telemetry.shapes.layout import UNKNOWN, frame
from gateway.telemetry.shapes.prefix_numbers import PrefixNumbers

STEP_TOKENS: Final = 64
"""Tokens per step of a prompt, if the exact tokens are known and blocks are not larger."""
STEP_BYTES: Final = 256
"""Bytes of text per step of a prompt, if blocks are not larger."""
MAX_WAITING_BYTES: Final = 64 * 1024
MAX_WAIT_S: Final = 1.0
"""Seconds after which waiting records are written when the next request completes."""
_MAX_SIZE: Final = UNKNOWN - 1
_LARGEST_I32: Final = 2**31 - 1


class FrameFiles(Protocol):
    """Files to which frames are written."""

    def write(self, data: bytes) -> bool:
        """Append the frame *data*. Return whether the next frame goes to the same file, so that it can use the names of
        this one.
        """
        ...

    def close(self) -> None: ...


class ShapeRecorder:
    """Observer of completed requests that writes their shapes to *files*. *block_bytes* is the size of a text block.

    Requests that failed or that were rejected are not recorded. Records wait in memory, at most `MAX_WAITING_BYTES`
    of them, until they are written together.
    """

    def __init__(
        self,
        files: FrameFiles,
        *,
        block_bytes: int,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._text_blocks = max(1, STEP_BYTES // block_bytes)
        self._text_bytes = self._text_blocks * block_bytes
        self._clock = clock
        self._wall_clock = wall_clock
        self._numbers = PrefixNumbers()
        self._names: dict[tuple[object, ...], int] = {}
        self._new_names: list[tuple[object, ...]] = []
        self._records = BytesWriter()
        self._written_at = clock()

    def observe(self, completed: list[CompletedRequest]) -> None:
        """Record the shapes of the *completed* requests. O(requests + new blocks), a microsecond each."""
        now = self._clock()
        offset_s = self._wall_clock() - now
        for ending in completed:
            exchange = ending.exchange
            if exchange.request is not None and exchange.error is None and exchange.status < 400:
                self._record(exchange, ending.at, offset_s)
        if now - self._written_at >= MAX_WAIT_S or len(self._records) >= MAX_WAITING_BYTES:
            self.write()

    def write(self) -> None:
        """Write the waiting records now, because they will be read."""
        self._written_at = self._clock()
        if not len(self._records):
            return
        data = frame(msgspec.json.encode(self._new_names), self._records.getvalue())
        self._records.truncate(0)
        self._new_names = []
        if not self._files.write(data):
            self._names.clear()

    def close(self) -> None:
        self.write()
        self._files.close()

    def _record(self, exchange: Exchange, at: float, offset_s: float) -> None:
        """Add the record of the request *exchange*, which ended at *at*, in the format `RECORD`."""
        request, usage, started = exchange.request, exchange.usage, exchange.started
        assert request is not None, "the caller has checked it"
        first_s = math.nan if exchange.first_byte is None else exchange.first_byte - started
        if request.exact:
            prefix = request.exact[0]
            blocks = max(1, STEP_TOKENS // prefix.block_tokens)
            tokens_per_step, bytes_per_step = blocks * prefix.block_tokens, 0
        else:
            prefix, blocks = request.prefix, self._text_blocks
            tokens_per_step, bytes_per_step = 0, self._text_bytes
        placed = self._numbers.place(prefix.hashes, blocks)
        cached = UNKNOWN
        if usage is None:
            prompt_tokens, output_tokens = int(request.prompt_tokens), exchange.streamed_events
        else:
            prompt_tokens, output_tokens = usage.prompt_tokens, usage.completion_tokens
            if usage.cached_tokens is not None:
                cached = min(usage.cached_tokens, _MAX_SIZE)
        backend = exchange.backend if exchange.served_by == "worker" else None
        names = (exchange.team, exchange.model, exchange.strategy, backend, tokens_per_step, bytes_per_step)
        records = self._records
        write_f64_le(records, started + offset_s)
        write_f32_le(records, first_s)
        write_f32_le(records, at - started)
        write_f32_le(records, exchange.queued_s)
        _write_u32(records, self._number_of(names))
        write_i64_le(records, 0 if request.session is None else hash(request.session))
        _write_u32(records, placed.parent & UNKNOWN)
        _write_u32(records, placed.shared)
        _write_u32(records, placed.first & UNKNOWN)
        _write_u32(records, placed.new)
        _write_u32(records, min(request.prompt_bytes, _MAX_SIZE))
        _write_u32(records, min(max(1, prompt_tokens), _MAX_SIZE))
        _write_u32(records, cached)
        _write_u32(records, min(max(1, output_tokens), _MAX_SIZE))
        records.append(1 if exchange.streams else 0)

    def _number_of(self, names: tuple[object, ...]) -> int:
        number = self._names.get(names)
        if number is None:
            number = self._names[names] = len(self._names)
            self._new_names.append(names)
        return number


def _write_u32(writer: BytesWriter, number: int) -> None:
    """Write an unsigned number of four bytes."""
    write_i32_le(writer, number if number <= _LARGEST_I32 else number - 2**32)
