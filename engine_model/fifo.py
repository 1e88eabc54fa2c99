"""Timing model used for all replay results. Prefills run one at a time in order of arrival. Decodes run in parallel.

A prefill starts when the server is free and all blocks of the request fit, including the blocks of its answer. No
request is therefore ever preempted, and a request costs O(blocks) for an answer of any length. Values are fixed at
three times:

1. At the start of a prefill: its cache hit, and its duration, fixed cost + uncached * (1 + slowdown * decodes) / rate.
   Blocks of the prompt that are in the host tier are loaded first, and nothing is computed meanwhile.
2. At the end of the prefill: the first token, and the time per further token, tpot + slope * (decodes already running).
   From then on, the blocks of the prompt count as cached.
3. At the end of the decode, after (output - 1) further tokens: the full blocks of the answer count as cached as well.

An engine looks for aborts between two steps, and a step computes at most *chunk_tokens* tokens of a prompt. The prefill
of an aborted request therefore ends with the step that runs, and its full blocks stay cached, see `ChunkedEngine`.
"""

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine_model.blocks import BlockHash, BlockPool
from engine_model.engine import (
    DuplicateRequest,
    EngineEvent,
    EngineLoad,
    Finished,
    FirstToken,
    Tally,
    Token,
    check_fits,
    store_computed,
)
from engine_model.request import EngineRequest
from engine_model.timing import Timing

CHUNK_TOKENS: Final = 2048
"""Prompt tokens of one step, as in `ChunkedEngine`."""
_ROUNDING = 1e-9  # k * tpot / tpot may come out a hair below k


@dataclass(slots=True, eq=False)
class _Prefill:
    request: EngineRequest
    blocks: list[int]
    hit_blocks: int
    """Number of blocks that were already in GPU memory."""
    loads: Sequence[BlockHash]
    """Blocks to load from the host tier."""
    loaded_at: float
    """Time at which all blocks that are not computed are on the GPU."""
    computes_at: float
    """Time at which the first token is computed."""
    ends_at: float
    pulled_blocks: int = 0
    """Number of blocks pulled from another engine."""
    aborted_tokens: int | None = None
    """Number of tokens that have KV at `ends_at` because the request was aborted, or None if it was not aborted."""

    @property
    def is_wanted(self) -> bool:
        return self.aborted_tokens is None

    @property
    def cached_blocks(self) -> int:
        """Number of blocks of the prompt that are not computed."""
        return self.hit_blocks + len(self.loads) + self.pulled_blocks


@dataclass(slots=True, eq=False)
class _Decode:
    request: EngineRequest
    blocks: list[int]
    stored: int
    began_at: float
    tpot_s: float
    emitted: int = 1

    def token_at(self, number: int) -> float:
        """Return the time at which output token *number* is available. The first token has number 1."""
        return self.began_at + (number - 1) * self.tpot_s

    def generated(self, now: float) -> int:
        """Return the number of output tokens that are available at *now*."""
        if not self.tpot_s:
            return self.request.output_tokens
        elapsed = int((now - self.began_at) / self.tpot_s + _ROUNDING)
        return min(self.request.output_tokens, 1 + elapsed)


class FifoEngine:
    """Engine that runs one prefill at a time in order of arrival. *token_events* adds an event for each later token."""

    def __init__(
        self,
        pool: BlockPool,
        timing: Timing | None = None,
        *,
        token_events: bool = False,
        chunk_tokens: int = CHUNK_TOKENS,
    ) -> None:
        if chunk_tokens < 1:
            raise ValueError(f"chunk_tokens must be at least 1, got {chunk_tokens}")
        self._pool = pool
        self._timing = timing if timing is not None else Timing()
        self._token_events = token_events
        self._chunk_tokens = chunk_tokens
        self._waiting: deque[EngineRequest] = deque()
        self._prefill: _Prefill | None = None
        self._decodes: dict[str, _Decode] = {}
        self._due: list[tuple[float, int, _Decode]] = []  # a heap; entries of aborted decodes are skipped
        self._serial = 0
        self._outbox: list[EngineEvent] = []
        self._tally = Tally()
        self._ids: set[str] = set()

    def submit(self, request: EngineRequest, now: float) -> None:
        self._run_until(now)
        check_fits(request, self._pool)
        if request.id in self._ids:
            raise DuplicateRequest(f"request {request.id} is already in the engine")
        self._ids.add(request.id)
        self._waiting.append(request)
        self._start_prefill(now)

    def abort(self, request_id: str, now: float) -> None:
        self._run_until(now)
        if request_id not in self._ids:
            return
        self._ids.remove(request_id)
        decode = self._decodes.pop(request_id, None)
        if decode is not None:
            self._settle(decode, decode.generated(now))
        elif self._prefill is not None and self._prefill.request.id == request_id and self._prefill.is_wanted:
            self._cut(self._prefill, now)
        else:
            self._waiting = deque(request for request in self._waiting if request.id != request_id)
        self._run_until(now)
        self._start_prefill(now)

    def wake(self, now: float) -> None:
        self._run_until(now)
        self._start_prefill(now)

    def next_event_at(self) -> float | None:
        if self._outbox:
            return self._outbox[0].at
        return self._next_transition_at()

    def advance(self, now: float) -> list[EngineEvent]:
        self._run_until(now)
        events, self._outbox = self._outbox, []
        return events

    def load(self, now: float) -> EngineLoad:
        return self._tally.load(
            running=len(self._decodes) + (self._prefill is not None and self._prefill.is_wanted),
            waiting=len(self._waiting),
            kv_usage=self._pool.usage,
            unsettled_tokens=sum(decode.generated(now) for decode in self._decodes.values()),
        )

    def _run_until(self, now: float) -> None:
        while (at := self._next_transition_at()) is not None and at <= now:
            if self._due and self._due[0][0] == at:
                _, _, decode = heapq.heappop(self._due)
                self._continue_decode(decode)
            elif self._prefill is not None:
                self._end_prefill(self._prefill)
            self._start_prefill(at)

    def _next_transition_at(self) -> float | None:
        due = self._due
        while due and self._decodes.get(due[0][2].request.id) is not due[0][2]:
            heapq.heappop(due)
        if self._prefill is None:
            return due[0][0] if due else None
        return min(due[0][0], self._prefill.ends_at) if due else self._prefill.ends_at

    def _start_prefill(self, now: float) -> None:
        if self._prefill is not None or not self._waiting:
            return
        pool, request = self._pool, self._waiting[0]
        limit = (request.prompt_tokens - 1) // pool.block_size
        hits = pool.match(request.block_hashes, limit)
        needed = pool.blocks_for(request.prompt_tokens + request.output_tokens)
        blocks = pool.take(hits, needed - len(hits))
        if blocks is None:
            return
        self._waiting.popleft()
        loads = pool.loadable(request.block_hashes, len(hits), limit)
        loaded_at = pool.begin_load(request.block_hashes, loads, now)
        pulled = pool.pull(request.block_hashes, len(hits) + len(loads), limit, request.peer, loaded_at)
        self._tally.admitted(request.prompt_tokens, len(hits) * pool.block_size)
        cached = len(hits) + len(loads) + pulled.blocks
        compute_s = self._timing.compute_s(request.prompt_tokens - cached * pool.block_size, len(self._decodes))
        computes_at = pulled.ready_at + self._timing.prefill_fixed_s
        self._prefill = _Prefill(
            request, blocks, len(hits), loads, pulled.ready_at, computes_at, computes_at + compute_s, pulled.blocks
        )

    def _cut(self, prefill: _Prefill, now: float) -> None:
        """End the prefill of an aborted request with the step that runs at *now*."""
        total = prefill.request.prompt_tokens - prefill.cached_blocks * self._pool.block_size
        compute_s = prefill.ends_at - prefill.computes_at
        if now < prefill.loaded_at:
            prefill.aborted_tokens, prefill.ends_at = 0, now
            return
        done = total * max(0.0, now - prefill.computes_at) / compute_s if compute_s else total
        steps = max(1, math.ceil(done / self._chunk_tokens - _ROUNDING))
        computed = min(total, steps * self._chunk_tokens)
        prefill.aborted_tokens = prefill.request.prompt_tokens - total + computed
        prefill.ends_at = max(now, prefill.computes_at + compute_s * computed / total)

    def _end_prefill(self, prefill: _Prefill) -> None:
        request, at = prefill.request, prefill.ends_at
        self._prefill = None
        self._pool.end_load(prefill.loads)
        if prefill.aborted_tokens is not None:
            computed = prefill.aborted_tokens
            if computed:
                store_computed(self._pool, request, prefill.blocks, stored=prefill.hit_blocks, computed_tokens=computed)
            self._pool.release(prefill.blocks)
            return
        stored = store_computed(
            self._pool, request, prefill.blocks, stored=prefill.hit_blocks, computed_tokens=request.prompt_tokens
        )
        self._tally.prompt_tokens += request.prompt_tokens
        cached_tokens = prefill.cached_blocks * self._pool.block_size
        self._outbox.append(FirstToken(request.id, at, cached_tokens))
        tpot_s = self._timing.decode_s(len(self._decodes))
        decode = _Decode(request, prefill.blocks, stored, at, tpot_s)
        self._decodes[request.id] = decode
        if request.output_tokens == 1:
            self._finish(decode, at)
        else:
            self._wake(decode)

    def _wake(self, decode: _Decode) -> None:
        number = decode.emitted + 1 if self._token_events else decode.request.output_tokens
        self._serial += 1
        heapq.heappush(self._due, (decode.token_at(number), self._serial, decode))

    def _continue_decode(self, decode: _Decode) -> None:
        if self._token_events:
            decode.emitted += 1
            self._outbox.append(Token(decode.request.id, decode.token_at(decode.emitted)))
            if decode.emitted < decode.request.output_tokens:
                self._wake(decode)
                return
        self._finish(decode, decode.token_at(decode.request.output_tokens))

    def _finish(self, decode: _Decode, at: float) -> None:
        del self._decodes[decode.request.id]
        self._ids.remove(decode.request.id)
        self._settle(decode, decode.request.output_tokens)
        self._outbox.append(Finished(decode.request.id, at))

    def _settle(self, decode: _Decode, generated: int) -> None:
        """Count and cache the generated tokens, and free the blocks. No KV is ever computed for the last token."""
        self._tally.generation_tokens += generated
        computed = decode.request.prompt_tokens + generated - 1
        store_computed(self._pool, decode.request, decode.blocks, stored=decode.stored, computed_tokens=computed)
        self._pool.release(decode.blocks)
