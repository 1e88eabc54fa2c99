"""Summary of the answers of one replay."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from replay.run import Answer

WARM_UP_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of the answers that count: the first tenth of the requests warms the caches up.

    The waits of sessions' first requests are of all sessions: most begin while caches are cold.
    """

    requests: int
    hit: float
    """Share of all prompt tokens that came out of a cache."""
    ttft_mean_s: float
    """Mean from arrival, like all times to the first token: the wait in the router is part of it."""
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    imbalance: float
    """Prompt tokens that the busiest worker had to compute, over the mean of all."""
    wait_max_s: float
    """Longest time that the router held a request."""
    first_wait_mean_s: float | None = None
    """Mean time that the router held the first request of a session; None without sessions in a closed loop."""
    first_wait_max_s: float | None = None

    @classmethod
    def of(cls, answers: Sequence[Answer], workers: int) -> "Summary":
        first_counted = min(WARM_UP_SHARE * len(answers), len(answers) - 1)
        counted = [answer for answer in answers if answer.arrival >= first_counted]
        ttft = sorted(answer.ttft_s for answer in counted)
        first = [answer.waited_s for answer in answers if answer.begins_session]
        p50, p90, p99 = (ttft[len(ttft) * percent // 100] for percent in (50, 90, 99))
        return cls(
            requests=len(counted),
            hit=sum(answer.cached_tokens for answer in counted) / sum(answer.prompt_tokens for answer in counted),
            ttft_mean_s=sum(ttft) / len(ttft),
            ttft_p50_s=p50,
            ttft_p90_s=p90,
            ttft_p99_s=p99,
            imbalance=_imbalance(counted, workers),
            wait_max_s=max(answer.waited_s for answer in counted),
            first_wait_mean_s=sum(first) / len(first) if first else None,
            first_wait_max_s=max(first, default=None),
        )


def _imbalance(answers: Sequence[Answer], workers: int) -> float:
    computed: Counter[int] = Counter()
    for answer in answers:
        computed[answer.worker] += answer.prompt_tokens - answer.cached_tokens
    return max(computed.values()) * workers / computed.total()
