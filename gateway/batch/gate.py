"""Rules for the lines of batches on the workers of one fleet. Lines fill the time that other requests leave.

1. While other requests use the fleet, a line begins only on a worker that computes no other prompt. A request that then
   arrives waits for at most one prompt of a line, and for a step of the engine if the line can be interrupted.
2. Other workers must be idle, so that a request that arrives finds one: a few if the line can be interrupted (see
   `gateway.batch.interruptions`). Otherwise, most of them if the prompt of the line takes long to compute.
3. While no other requests use the fleet, a line begins on a worker whose engine would begin it almost at once. Lines
   show no end of their prefill, so the reports of the engine's queue decide, and not the predicted times alone.
4. A worker has at most N lines in flight, and their prompts and expected answers occupy at most a share of its cache.
   If they filled the cache, other requests would wait in the engine until lines end.

The figures behind the two thresholds are in benchmarks/results/batch.md.
"""

import math
from collections import Counter
from typing import Final

from cache_index import WorkerId
from gateway.batch.interruptions import Prefill
from routing.fleet import Fleet
from routing.worker import Worker

SHORT_S: Final = 0.2
"""Seconds to compute the prompt of a line that cannot be interrupted and needs no other idle worker: a step of 2,048
tokens on a usual GPU.
"""
IDLE_SHARE: Final = 0.75
"""Share of the workers that must be idle before a line with a longer prompt begins."""
YIELDING_IDLE_SHARE: Final = 0.375
"""Share of the workers that must be idle before a line begins that can be interrupted, whatever its prompt takes."""
QUIET_S: Final = 10.0
"""Seconds without another request after which lines no longer leave workers idle."""


class Gate:
    """Lines in flight on the workers of one fleet, and the decision whether one more may begin."""

    def __init__(self, *, per_worker: int, max_cache_share: float = 1.0) -> None:
        """Create the gate. *per_worker* is N, and *max_cache_share* is the share of a worker's cache."""
        self._per_worker = per_worker
        self._max_cache_share = max_cache_share
        self._lines: Counter[WorkerId] = Counter()
        self._tokens: Counter[WorkerId] = Counter()
        self._computes_until: dict[WorkerId, float] = {}
        """Predicted time at which a worker has computed all prompts of lines that can be interrupted."""
        self._used_at = -math.inf
        """Time at which a request that is no line of a batch was last in flight."""

    def lines(self, worker: WorkerId) -> int:
        """Return the number of lines in flight on *worker*."""
        return self._lines[worker]

    def has_place(self, worker: Worker) -> bool:
        """Return whether *worker* can have one more line in flight. All lines that began must have arrived there."""
        lines = self._lines[worker.id]
        return worker.is_answering and lines < self._per_worker and worker.in_flight >= lines

    def may_begin(
        self, fleet: Fleet, worker: Worker, *, step_tokens: float, tokens: float, now: float, yields: bool = False
    ) -> bool:
        """Return whether a line may begin on *worker* now.

        Its prompt and its answer have *tokens* tokens. *step_tokens* of its prompt are not in the cache if the line
        before ran on *worker*. *yields* is whether the line can be interrupted.
        """
        if not self.has_place(worker) or not self._fits(worker, tokens):
            return False
        ready = [each for each in fleet if each.is_answering]
        if any(each.in_flight > self._lines[each.id] for each in ready):
            self._used_at = now
        if now > self._used_at + QUIET_S:
            return worker.room(worker.load(now).backlog_s, 0.0, now) >= 1.0
        idle = [each for each in ready if _is_idle(each, now)]
        is_free = not yields and worker.prefill_s(step_tokens) <= SHORT_S
        share = YIELDING_IDLE_SHARE if yields else IDLE_SHARE
        return worker in idle and (is_free or len(idle) >= math.ceil(share * len(ready)))

    def prefill(self, worker: Worker, step_tokens: float, now: float) -> Prefill:
        """Return the computation of a prompt on *worker*, to which a line is sent at *now*. Call `interrupt` if it is
        interrupted.

        *step_tokens* tokens of the prompt are not in the cache of *worker*.
        """
        begins_at = max(now, self._computes_until.get(worker.id, now))
        prefill = Prefill(worker, now, begins_at, worker.prefill_s(step_tokens))
        self._computes_until[worker.id] = begins_at + prefill.work_s
        return prefill

    def interrupt(self, worker: WorkerId) -> None:
        """Note that *worker* computes no line that can be interrupted any more."""
        self._computes_until.pop(worker, None)

    def begin(self, worker: WorkerId, tokens: float) -> None:
        """Count a line with *tokens* tokens on *worker*."""
        self._lines[worker] += 1
        self._tokens[worker] += round(tokens)

    def end(self, worker: WorkerId, tokens: float) -> None:
        """Give back what `begin` counted."""
        self._lines[worker] -= 1
        self._tokens[worker] -= round(tokens)
        if not self._lines[worker]:
            del self._lines[worker], self._tokens[worker]
            self._computes_until.pop(worker, None)

    def _fits(self, worker: Worker, tokens: float) -> bool:
        """Return whether the lines of *worker* would stay within their share of its cache. A lone line always fits."""
        if worker.engine_capacity is None or not self._lines[worker.id]:
            return True
        blocks, block_size = worker.engine_capacity
        return self._tokens[worker.id] + tokens <= self._max_cache_share * blocks * block_size


def _is_idle(worker: Worker, now: float) -> bool:
    return worker.load(now).backlog_s <= 0.0
