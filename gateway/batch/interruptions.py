"""Interruption of lines: a request that needs the worker of a line does not wait for the end of the line's prompt.

The gateway closes the request of the line, as if its caller had disconnected, and sends the line again later, to the
same worker. What the engine has computed is not lost:

1. vLLM registers the full blocks of a step in its prefix cache when it schedules the step (`allocate_slots` in
   vllm/v1/core/kv_cache_manager.py), and applies aborts between two steps (`_process_aborts_queue` in
   vllm/v1/engine/core.py). An abort frees the blocks, and free blocks keep their content until they are needed for
   others. A step computes at most `max_num_batched_tokens` tokens, 2,048 by default on small GPUs.
2. SGLang adds each chunk of a prompt to its radix cache (`cache_unfinished_req` in mem_cache/radix_cache.py). What it
   does with an aborted prompt was not examined.

An engine always ends the step that it has begun, so a line advances by at least one step each time.
"""

from dataclasses import dataclass
from typing import Final

from cache_index import WorkerId
from routing.worker import Worker

MAX_INTERRUPTIONS: Final = 20
"""Number of times that a line is interrupted. After them, it waits for idle workers and then runs to its end."""
LOOK_S: Final = 0.02
"""Seconds between two checks of the workers, and so the longest time until a line is interrupted."""
STEP_TOKENS: Final = 2048
"""Tokens of a prompt that an engine is expected to compute until it notices an abort."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Line that was interrupted."""

    worker: WorkerId
    """Worker whose cache has the beginning of the prompt."""
    step: float
    """Length of the part of the prompt that this worker has not computed, as predicted."""
    count: int
    """Number of interruptions of the line."""

    @property
    def may_repeat(self) -> bool:
        """Whether the line may be interrupted again."""
        return self.count < MAX_INTERRUPTIONS


@dataclass(frozen=True, slots=True)
class Prefill:
    """Computation of the prompt of a line that can be interrupted."""

    worker: Worker
    sent_at: float
    begins_at: float
    work_s: float
    """Predicted seconds of the computation."""

    @property
    def yields_in_s(self) -> float:
        """Mean time for which another request waits until the line is interrupted."""
        return (LOOK_S + min(self.work_s, self.worker.prefill_s(STEP_TOKENS))) / 2

    @property
    def ends_at(self) -> float:
        """Predicted time from which on the line generates its answer, and is not interrupted any more."""
        return self.begins_at + self.work_s

    def is_in_the_way(self, now: float, *, others_wait: bool) -> bool:
        """Return whether another request needs the worker. *others_wait* is whether requests wait for any worker."""
        return now < self.ends_at and (others_wait or self.worker.asked_at >= self.sent_at)

    def interrupted(self, step: float, count: int, now: float) -> Interrupted:
        """Return the line as it is after an interruption at *now*, the *count*-th one.

        *step* is the length of the part of the prompt that the worker had not computed when the line was sent.
        """
        done = max(0.0, now - self.begins_at) / self.work_s if self.work_s > 0.0 else 1.0
        return Interrupted(self.worker.id, max(1.0, step * (1.0 - done)), count)
