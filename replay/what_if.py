"""Replays of recorded requests with another strategy, another number of workers or other caches.

The times of the engines are those that a gateway has learned about its workers. Learned times are averages, so they are
scaled until a replay with the recorded strategy and fleet has the mean time to the first token that was measured.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine_model.blocks import BlockPool
from engine_model.engine import Engine
from engine_model.fifo import FifoEngine
from engine_model.timing import Timing
from replay.entrant import Entrant, ours
from replay.run import Answer, Run
from replay.setting import Setting
from replay.trace import Recorded, Trace
from replay.workload import Arrivals, Workload

WARM_UP_SHARE = 0.1
"""Share of the requests that warm the caches up and are not counted."""
CLOSE = 0.03
"""Difference between the replayed and the measured mean at which the scale is good enough."""
STEPS = 5
DAMPING = 0.7
"""Exponent of a step. Under load, times to the first token grow faster than the times of engines."""
SCALES = (0.3, 3.0)
"""Smallest and largest scale. Beyond them, the recorded times have other causes than the speed of engines."""
MIN_PREFILL_S_PER_TOKEN = 1e-7
"""Smallest time per token of an engine. While all prompts are short, the learned time per token can be 0."""


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """Learned times of one worker's engine."""

    prefill_fixed_s: float
    prefill_s_per_token: float
    decode_s: float
    """Seconds per token of a stream that is alone."""
    decode_slope_s: float
    """Additional seconds per token for each other stream."""

    def timing(self, scale: float = 1.0) -> Timing:
        """Return the timing of an engine whose work takes *scale* times as long."""
        return Timing(
            prefill_tokens_per_s=1.0 / (max(self.prefill_s_per_token, MIN_PREFILL_S_PER_TOKEN) * scale),
            prefill_fixed_s=self.prefill_fixed_s * scale,
            # Learned times include the work that ran beside.
            prefill_slowdown=0.0,
            tpot_s=self.decode_s * scale,
            tpot_slope_s=self.decode_slope_s * scale,
        )


@dataclass(frozen=True, slots=True)
class Alternative:
    """A fleet and its strategy."""

    strategy: str
    workers: int
    cache_tokens: int
    """KV cache of each worker."""


@dataclass(frozen=True, slots=True)
class _Learned(Entrant):
    """A strategy of ours before engines with known times."""

    timings: Sequence[Timing] = ()

    def engine(self, setting: Setting, pool: BlockPool, worker: int = 0) -> Engine:  # noqa: ARG002
        return FifoEngine(pool, self.timings[worker % len(self.timings)])


class _Counted:
    """A `Workload` that reports each answer."""

    def __init__(self, workload: Workload, answered: Callable[[], None]) -> None:
        self._workload = workload
        self._answered = answered
        self.begin = workload.begin

    def answered(self, request: Recorded, now: float) -> Arrivals:
        self._answered()
        return self._workload.answered(request, now)


@dataclass(frozen=True, slots=True)
class Replayer:
    """Replays of one trace before alternatives. Each replay takes a new workload from *workload*."""

    trace: Trace
    workload: Callable[[int], Workload]
    """Function that returns the arrivals of a repetition. Repetitions differ by chance, and their mean counts."""
    engines: Sequence[EngineTimes]
    """Times of the workers. If an alternative has more workers, they have these times in turn."""
    answered: Callable[[], None] = lambda: None
    """Function that is called after each answer in a replay."""
    repetitions: int = 1
    has_kv_events: bool = True
    """Whether engines send KV events, which only strategies such as kv_aware read."""

    def answers(self, alternative: Alternative, scale: float = 1.0) -> list[list[Answer]]:
        """Return the answers to all requests in each repetition, in the order of their ends.

        Raises:
            EngineError: if a request does not fit into a cache.
        """
        timings = [engine.timing(scale) for engine in self.engines]
        blocks = max(1, alternative.cache_tokens // self.trace.block_tokens)
        mean_rate = statistics.fmean(timing.prefill_tokens_per_s for timing in timings)
        setting = Setting("", Path(), alternative.workers, blocks, prefill_tokens_per_s=mean_rate)
        entrant = _Learned(ours(alternative.strategy, knows_blocks=self.has_kv_events).policy, timings=timings)
        return [
            Run(
                self.trace,
                setting,
                entrant,
                seed=repetition,
                workload=_Counted(self.workload(repetition), self.answered),
            ).answers()
            for repetition in range(self.repetitions)
        ]

    def calibrated(self, recorded: Alternative, measured_s: float, counts: Callable[[int], bool]) -> float:
        """Return the scale of engine times with which the replay of *recorded* has the mean *measured_s*.

        *counts* returns for the number of a request whether its time to the first token was measured.

        Raises:
            EngineError: if a request does not fit into a cache.
        """
        scale, best, least = 1.0, 1.0, math.inf
        for _ in range(STEPS):
            answers = counted(self.answers(recorded, scale))
            mean_s = statistics.fmean(answer.ttft_s for answer in answers if counts(answer.number))
            off = abs(math.log(measured_s / mean_s))
            if off < least:
                best, least = scale, off
            if off < CLOSE:
                break
            scale = min(SCALES[1], max(SCALES[0], scale * (measured_s / mean_s) ** DAMPING))
        return best


def counted(repetitions: Sequence[Sequence[Answer]]) -> list[Answer]:
    """Return the answers of all repetitions that count: those to all requests after the first tenth."""
    found: list[Answer] = []
    for answers in repetitions:
        first = min(WARM_UP_SHARE * len(answers), len(answers) - 1)
        found += [answer for answer in answers if answer.arrival >= first]
    return found
