"""Timing model with continuous batching and chunked prefill, as scheduled by vLLM V1. The HTTP server uses this model.

Each step first serves the running requests, oldest first, and then admits waiting requests while the step's token
budget lasts. If a running request finds no free block, the youngest running request is preempted: it releases all its
blocks and is recomputed later (vllm/v1/core/sched/scheduler.py). A step with p prompt tokens, s starting prefills and
d decodes takes the following number of seconds:

    s * fixed + p * (1 + slowdown * d) / rate + (tpot + slope * (d - 1) if d)

A request that runs alone, and a batch that only decodes, therefore take exactly as long as in the `fifo` model.

An engine looks for aborts between two steps (`_process_aborts_queue` in vllm/v1/engine/core.py). A sequence that is
aborted during a step therefore ends with this step, without another token, and its full blocks stay cached: vLLM
registers the blocks of a step when it schedules the step (`allocate_slots` in vllm/v1/core/kv_cache_manager.py).

Blocks in the host tier are loaded before the prefill of their request begins. Steps of other requests run meanwhile, as
in vLLM. Unlike in vLLM, a request that loads gets the blocks of its whole prompt at once.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from engine_model.blocks import BlockHash, BlockPool
from engine_model.engine import (
    DuplicateRequest,
    EngineEvent,
    EngineLoad,
    Finished,
    FirstToken,
    Preempted,
    Tally,
    Token,
    check_fits,
    store_computed,
)
from engine_model.request import EngineRequest
from engine_model.timing import Timing


@dataclass(slots=True, eq=False)
class _Sequence:
    """Running request. *computed* tokens have KV cache entries, and *generated* tokens were sampled."""

    request: EngineRequest
    blocks: list[int]
    computed: int = 0
    generated: int = 0
    stored: int = 0
    cached_tokens: int | None = None
    loads: Sequence[BlockHash] = ()
    """Blocks that are being loaded from the host tier."""
    loaded_at: float = 0.0

    @property
    def known(self) -> int:
        """Number of tokens whose KV cache entries must be computed before the next token can be sampled."""
        return self.request.prompt_tokens + self.generated

    @property
    def is_decoding(self) -> bool:
        return self.generated > 0 and self.known - self.computed == 1


@dataclass(frozen=True, slots=True)
class _Step:
    ends_at: float
    work: list[tuple[_Sequence, int]]
    """Sequences of the step, each with the number of its tokens that the step computes."""


class ChunkedEngine:
    """Engine with continuous batching and limits on tokens and sequences per step. The limits have vLLM's names."""

    def __init__(
        self,
        pool: BlockPool,
        timing: Timing | None = None,
        *,
        max_num_batched_tokens: int = 2048,
        max_num_seqs: int = 256,
    ) -> None:
        if not max_num_batched_tokens >= max_num_seqs >= 1:
            raise ValueError(
                f"max_num_batched_tokens ({max_num_batched_tokens}) must be at least max_num_seqs ({max_num_seqs}), "
                "which must be at least 1"
            )
        self._pool = pool
        self._timing = timing if timing is not None else Timing()
        self._max_num_batched_tokens = max_num_batched_tokens
        self._max_num_seqs = max_num_seqs
        self._sequences: dict[str, _Sequence] = {}
        self._running: list[_Sequence] = []
        self._leaving = 0
        """Number of running sequences that were aborted and end with the current step."""
        self._waiting: deque[_Sequence] = deque()
        self._step: _Step | None = None
        self._outbox: list[EngineEvent] = []
        self._tally = Tally()

    def submit(self, request: EngineRequest, now: float) -> None:
        self._run_until(now)
        check_fits(request, self._pool)
        if request.id in self._sequences:
            raise DuplicateRequest(f"request {request.id} is already in the engine")
        sequence = self._sequences[request.id] = _Sequence(request, [])
        self._waiting.append(sequence)
        if self._step is None:
            self._step = self._schedule(now)

    def abort(self, request_id: str, now: float) -> None:
        self._run_until(now)
        sequence = self._sequences.pop(request_id, None)
        if sequence is None:
            return
        if self._step is not None and any(each is sequence for each, _ in self._step.work):
            self._leaving += 1
            return  # `_run_until` ends it
        self._give_back(sequence)
        if sequence in self._running:
            self._running.remove(sequence)
        else:
            self._waiting.remove(sequence)
        if self._step is None:  # only loads were running: what waits may fit now
            self._step = self._schedule(now)

    def wake(self, now: float) -> None:
        self._run_until(now)
        if self._step is None:
            self._step = self._schedule(now)

    def next_event_at(self) -> float | None:
        return self._outbox[0].at if self._outbox else self._next_transition_at()

    def advance(self, now: float) -> list[EngineEvent]:
        self._run_until(now)
        events, self._outbox = self._outbox, []
        return events

    def load(self, now: float) -> EngineLoad:  # noqa: ARG002 - every token is counted as its step ends
        running = len(self._running) - self._leaving
        return self._tally.load(running=running, waiting=len(self._waiting), kv_usage=self._pool.usage)

    def _run_until(self, now: float) -> None:
        while (at := self._next_transition_at()) is not None and at <= now:
            for sequence, count in self._step.work if self._step is not None else ():
                self._compute(sequence, count)
                if self._sequences.get(sequence.request.id) is sequence:
                    self._complete(sequence, at)
                else:  # aborted during the step
                    self._leaving -= 1
                    self._running.remove(sequence)
                    self._pool.release(sequence.blocks)
            self._step = self._schedule(at)

    def _next_transition_at(self) -> float | None:
        """Return the end of the current step or, between two steps, the end of the next load."""
        if self._step is not None:
            return self._step.ends_at
        return min((sequence.loaded_at for sequence in self._running if sequence.loads), default=None)

    def _compute(self, sequence: _Sequence, count: int) -> None:
        sequence.computed += count
        sequence.stored = store_computed(
            self._pool, sequence.request, sequence.blocks, stored=sequence.stored, computed_tokens=sequence.computed
        )

    def _complete(self, sequence: _Sequence, at: float) -> None:
        request = sequence.request
        if sequence.computed < sequence.known:
            return
        sequence.generated += 1
        self._tally.generation_tokens += 1
        if sequence.generated == 1:
            self._tally.prompt_tokens += request.prompt_tokens
            self._outbox.append(FirstToken(request.id, at, sequence.cached_tokens or 0))
        else:
            self._outbox.append(Token(request.id, at))
        if sequence.generated == request.output_tokens:
            del self._sequences[request.id]
            self._running.remove(sequence)
            self._pool.release(sequence.blocks)
            self._outbox.append(Finished(request.id, at))

    def _schedule(self, now: float) -> _Step | None:
        """Return the next engine step, which begins at *now*, or None if there is no work."""
        preemptions = self._tally.preemptions
        begun = self._end_loads(now)
        work, budget = self._schedule_running(now)
        if self._tally.preemptions == preemptions:  # after a preemption there is no room to admit anybody
            begun += self._admit_waiting(work, budget, now)
        if not work:
            return None
        decodes = sum(1 for sequence, _ in work if sequence.is_decoding)
        prefill_tokens = sum(count for sequence, count in work if not sequence.is_decoding)
        duration_s = begun * self._timing.prefill_fixed_s + self._timing.compute_s(prefill_tokens, decodes)
        if decodes:
            duration_s += self._timing.decode_s(decodes - 1)
        return _Step(now + duration_s, work)

    def _schedule_running(self, now: float) -> tuple[list[tuple[_Sequence, int]], int]:
        """Return the work of the running sequences, oldest first, and the remaining token budget."""
        work: list[tuple[_Sequence, int]] = []
        budget = self._max_num_batched_tokens
        index = 0
        while index < len(self._running) and budget:
            sequence = self._running[index]
            if sequence.loads:
                index += 1
                continue
            count = min(sequence.known - sequence.computed, budget)
            while not self._grow(sequence, count):
                victim = self._running.pop()
                self._preempt(victim, now)
                if victim is sequence:
                    return work, budget
            work.append((sequence, count))
            budget -= count
            index += 1
        return work, budget

    def _end_loads(self, now: float) -> int:
        """Let the sequences run whose loads have ended. Return the number of these sequences."""
        pool = self._pool
        ended = [sequence for sequence in self._running if sequence.loads and sequence.loaded_at <= now]
        for sequence in ended:
            pool.end_load(sequence.loads)
            sequence.loads = ()
            sequence.stored = store_computed(
                pool, sequence.request, sequence.blocks, stored=sequence.stored, computed_tokens=sequence.computed
            )
        return len(ended)

    def _admit_waiting(self, work: list[tuple[_Sequence, int]], budget: int, now: float) -> int:
        """Start waiting sequences in order of arrival while they fit. Return the number of started prefills, without
        sequences whose blocks must be loaded first.
        """
        begun = 0
        while self._waiting and budget and len(self._running) < self._max_num_seqs:
            sequence = self._waiting[0]
            count = self._admit(sequence, budget, now)
            if count is None:
                break
            self._waiting.popleft()
            self._running.append(sequence)
            if sequence.loads:
                continue
            work.append((sequence, count))
            budget -= count
            begun += 1
        return begun

    def _admit(self, sequence: _Sequence, budget: int, now: float) -> int | None:
        """Give *sequence* its first blocks, and begin to load the blocks that are in the host tier.

        Return the number of tokens to compute in the first step, or None if the sequence does not fit.
        """
        pool, hashes = self._pool, sequence.request.block_hashes
        limit = (sequence.known - 1) // pool.block_size
        hits = pool.match(hashes, limit)
        loads = pool.loadable(hashes, len(hits), limit)
        computed = (len(hits) + len(loads)) * pool.block_size
        count = min(sequence.known - computed, budget)
        needed = pool.blocks_for(sequence.known if loads else computed + count)
        blocks = pool.take(hits, needed - len(hits))
        if blocks is None:
            return None
        sequence.loads, sequence.loaded_at = loads, pool.begin_load(hashes, loads, now)
        sequence.blocks, sequence.computed, sequence.stored = blocks, computed, len(hits)
        if sequence.cached_tokens is None:  # a preempted request finds its own blocks: that is no hit of the prompt
            sequence.cached_tokens = computed
            self._tally.admitted(sequence.request.prompt_tokens, len(hits) * pool.block_size)
        return count

    def _grow(self, sequence: _Sequence, count: int) -> bool:
        missing = self._pool.blocks_for(sequence.computed + count) - len(sequence.blocks)
        if missing <= 0:
            return True
        fresh = self._pool.take((), missing)
        if fresh is None:
            return False
        sequence.blocks.extend(fresh)
        return True

    def _give_back(self, sequence: _Sequence) -> None:
        """Give up the load of blocks for *sequence* and release the blocks of *sequence*."""
        self._pool.end_load(sequence.loads)
        sequence.loads = ()
        self._pool.release(sequence.blocks)

    def _preempt(self, victim: _Sequence, now: float) -> None:
        self._give_back(victim)
        victim.blocks, victim.computed, victim.stored = [], 0, 0
        self._waiting.appendleft(victim)
        self._tally.preemptions += 1
        self._outbox.append(Preempted(victim.request.id, now))
