"""Outcome of one run: times, throughput, and cost."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from engine_model.timing import Timing
from replay.run import Answer

WARM_UP_SHARE, COOL_DOWN_SHARE = 0.2, 0.1
"""Shares of the requests, by arrival, while caches fill, and while the last conversations end."""
THOUSAND = 1000
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of the answers that count; times are from the request's arrival at the router."""

    requests: int
    hit: float
    """Share of all prompt tokens that came out of a cache."""
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    latency_mean_s: float
    """Mean latency to the last token."""
    latency_p90_s: float
    answers_per_s: float
    output_tokens_per_s: float
    prefill_share: float
    """Share of the GPUs' time that went into prompts."""
    gpu_s: float
    """GPU-seconds per 1,000 requests: those of the whole fleet, idle or not, for that is what is paid."""

    @classmethod
    def of(cls, answers: Sequence[Answer], workers: int) -> "Outcome":
        """Raises ``ValueError`` when too few requests came, or all that count at one moment."""
        by_arrival = sorted(answers, key=lambda answer: answer.arrival)
        first, last = int(WARM_UP_SHARE * len(answers)), int((1 - COOL_DOWN_SHARE) * len(answers))
        counted = by_arrival[first:last]
        if len(counted) < 2:
            raise ValueError(f"{len(answers)} answers are too few")
        begun_at, over_at = counted[0].arrived_at, counted[-1].arrived_at
        ended = [answer for answer in answers if begun_at < answer.ended_at <= over_at]
        lasted_s = over_at - begun_at
        if lasted_s <= 0:
            raise ValueError("the requests that count came all at one moment")
        ttft = sorted(answer.ttft_s for answer in counted)
        latency = sorted(answer.ended_at - answer.arrived_at for answer in counted)
        computed = sum(answer.prompt_tokens - answer.cached_tokens for answer in counted)
        p50, p90, p99 = (percentile(ttft, percent) for percent in (50, 90, 99))
        return cls(
            requests=len(counted),
            hit=1 - computed / sum(answer.prompt_tokens for answer in counted),
            ttft_mean_s=statistics.fmean(ttft),
            ttft_p50_s=p50,
            ttft_p90_s=p90,
            ttft_p99_s=p99,
            latency_mean_s=statistics.fmean(latency),
            latency_p90_s=percentile(latency, 90),
            answers_per_s=len(ended) / lasted_s,
            output_tokens_per_s=sum(answer.output_tokens for answer in ended) / lasted_s,
            prefill_share=Timing().compute_s(computed, 0) / (lasted_s * workers),
            gpu_s=gpu_s_per_thousand(len(ended), lasted_s, workers),
        )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the lowest of the sorted values that *percent* of them do not exceed, or the next."""
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def gpu_s_per_thousand(answers: float, lasted_s: float, gpus: int) -> float:
    """GPU-seconds that *gpus* are paid for while 1,000 requests are answered; infinite if none was."""
    return THOUSAND * gpus * lasted_s / answers if answers else float("inf")


def cost_usd(gpu_s: float, usd_per_hour: float) -> float:
    return gpu_s * usd_per_hour / SECONDS_PER_HOUR
