"""Result of one run through one router. All times are in seconds of the workers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.routing.asking import Answer
from benchmarks.peers.routing.workers import Work


@dataclass(frozen=True, slots=True)
class Effort:
    """Processor time, as a number of cores that were always busy."""

    clients: float
    router: float
    workers: float

    @property
    def cores(self) -> float:
        return self.clients + self.router + self.workers


@dataclass(frozen=True, slots=True)
class Outcome:
    router: str
    is_ours: bool
    requests: int
    failures: Mapping[str, int]
    """Number of failures by kind, which is empty if all requests were answered."""
    hit_rate: float
    """Cached share of all prompt tokens, as counted by the workers."""
    ttft_mean_s: float
    """Mean time to first token of answered requests, counted from when they were due, or infinity without any."""
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    e2e_p50_s: float
    imbalance: float
    """Prompt tokens that the busiest worker computed, divided by the mean of all workers."""
    busiest_share: float
    """Share of all requests that the busiest worker received."""
    output_tokens: int
    """Output tokens as counted by the workers, which must be equal for all routers."""
    late_p99_s: float
    """Delay with which requests left the client."""
    effort: Effort
    took_s: float
    """Duration of the run in real seconds."""

    @classmethod
    def of(
        cls,
        router: str,
        answers: Sequence[Answer],
        work: Sequence[Work],
        effort: Effort,
        *,
        is_ours: bool,
        speed: float,
        took_s: float,
    ) -> "Outcome":
        """Summarize a run. Raises ValueError if there were no requests, or no worker received one."""
        answered = [answer for answer in answers if answer.failure is None]
        ttft = sorted(answer.ttft_s * speed for answer in answered)
        computed = [each.computed_tokens for each in work]
        ended = [each.requests for each in work]
        prompts = sum(each.prompt_tokens for each in work)
        failures = Counter(answer.failure for answer in answers if answer.failure is not None)
        if not answers or not prompts:
            raise ValueError(f"no request has reached a worker through {router}: {dict(failures)}")
        return cls(
            router=router,
            is_ours=is_ours,
            requests=len(answers),
            failures=failures,
            hit_rate=1 - sum(computed) / prompts,
            ttft_mean_s=sum(ttft) / len(ttft) if ttft else float("inf"),
            ttft_p50_s=percentile(ttft, 50),
            ttft_p90_s=percentile(ttft, 90),
            ttft_p99_s=percentile(ttft, 99),
            e2e_p50_s=percentile(sorted(answer.e2e_s * speed for answer in answered), 50),
            imbalance=max(computed) * len(work) / sum(computed) if any(computed) else 1.0,
            busiest_share=max(ended) / sum(ended) if any(ended) else 0.0,
            output_tokens=sum(each.output_tokens for each in work),
            late_p99_s=percentile(sorted(answer.late_s * speed for answer in answers), 99),
            effort=effort,
            took_s=took_s,
        )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the percentile *percent* of sorted values, or infinity without values."""
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else float("inf")
