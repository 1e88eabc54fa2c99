"""Samples of the traffic of the last hour, from which pages draw charts."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gateway.models.model import Model
from gateway.telemetry.counters import RequestCounters, TeamCounters

EVERY_S: Final = 5.0
KEPT: Final = 721
"""Number of kept samples, which cover one hour."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters of all models at one time. They only grow, except the last two."""

    time: float
    """Seconds since 1970."""
    requests: int
    failed: int
    """Number of requests with a status of 500 or higher."""
    refused: int
    """Number of requests with a status from 400 to 499."""
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    ttft_counts: tuple[int, ...]
    """Counts of the buckets of the time to first token."""
    ttft_bounds: tuple[float, ...]
    in_flight: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Traffic between two samples. A value is None if there is nothing to compute it from."""

    time: float
    """End of the interval in seconds since 1970."""
    seconds: float
    requests: int
    failed: int
    refused: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    in_flight: int
    waiting: int


class TrafficHistory:
    """Ring of samples. *settle* completes the counters, and *wall_clock* returns the seconds since 1970."""

    def __init__(
        self,
        counters: Mapping[str, RequestCounters],
        team_counters: Mapping[str, TeamCounters],
        models: Iterable[Model],
        *,
        settle: Callable[[], None],
        wall_clock: Callable[[], float],
    ) -> None:
        self._counters = counters
        self._team_counters = team_counters
        self._models = models
        self._settle = settle
        self._wall_clock = wall_clock
        self._samples: deque[Sample] = deque(maxlen=KEPT)

    async def run(self) -> None:
        """Take a sample every `EVERY_S` seconds, until canceled."""
        while True:
            self.take()
            await asyncio.sleep(EVERY_S)

    def take(self) -> None:
        """Take a sample now. O(models + teams)."""
        self._settle()
        counters, teams, models = self._counters.values(), self._team_counters.values(), list(self._models)
        self._samples.append(
            Sample(
                time=self._wall_clock(),
                requests=_by_status(counters, 0, 1000),
                failed=_by_status(counters, 500, 1000),
                refused=_by_status(counters, 400, 500),
                prompt_tokens=sum(each.prompt_tokens for each in counters),
                cached_tokens=sum(each.cached_tokens for each in counters),
                completion_tokens=sum(each.completion_tokens for each in counters),
                cost_usd=sum(each.workers_usd + each.fallback_usd for each in teams),
                saved_usd=sum(each.saved_usd for each in teams),
                ttft_counts=tuple(map(sum, zip(*(each.ttft.counts for each in counters), strict=True))),
                ttft_bounds=next((each.ttft.bounds for each in counters), ()),
                in_flight=sum(model.in_flight for model in models),
                waiting=sum(model.dispatch_queue.waiting for model in models),
            )
        )

    def last(self, seconds: float) -> Interval | None:
        """Return the traffic of the last *seconds* as one interval, or None if there are fewer than two samples."""
        steps = max(1, round(seconds / EVERY_S))
        samples = self._samples
        return interval(samples[max(0, len(samples) - 1 - steps)], samples[-1]) if len(samples) > 1 else None

    def intervals(self, minutes: int, *, most: int = 60) -> list[Interval]:
        """Return the traffic of the last *minutes* in at most *most* intervals of equal length, oldest first."""
        steps = max(1, round(minutes * 60 / EVERY_S / most))
        samples = list(self._samples)[-(steps * most + 1) :]
        marks = samples[::-1][::steps][::-1]
        return [interval(former, latter) for former, latter in pairwise(marks)]


def interval(former: Sample, latter: Sample) -> Interval:
    """Return the traffic between two samples."""
    counts = [
        count - before
        for before, count in zip(former.ttft_counts or (0,) * len(latter.ttft_counts), latter.ttft_counts, strict=True)
    ]
    return Interval(
        time=latter.time,
        seconds=latter.time - former.time,
        requests=latter.requests - former.requests,
        failed=latter.failed - former.failed,
        refused=latter.refused - former.refused,
        prompt_tokens=latter.prompt_tokens - former.prompt_tokens,
        cached_tokens=latter.cached_tokens - former.cached_tokens,
        completion_tokens=latter.completion_tokens - former.completion_tokens,
        cost_usd=latter.cost_usd - former.cost_usd,
        saved_usd=latter.saved_usd - former.saved_usd,
        ttft_p50_s=quantile(latter.ttft_bounds, counts, 0.5),
        ttft_p95_s=quantile(latter.ttft_bounds, counts, 0.95),
        in_flight=latter.in_flight,
        waiting=latter.waiting,
    )


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Return the value below which *share* of the values lie, estimated within its bucket as Prometheus does.

    Return None without values. The last bucket has no upper bound, so its lower bound is returned.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, seen = share * total, 0
    for i, count in enumerate(counts):
        if seen + count >= wanted and count:
            lower = bounds[i - 1] if i else 0.0
            return lower if i == len(bounds) else lower + (bounds[i] - lower) * (wanted - seen) / count
        seen += count
    return bounds[-1]


def _by_status(counters: Iterable[RequestCounters], first: int, end: int) -> int:
    return sum(count for each in counters for status, count in each.requests.items() if first <= status < end)
