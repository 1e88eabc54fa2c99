"""The worker that should give the first token soonest."""

import random

from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest


class MinTtft:
    """Backlog + uncached tokens / believed rate, in seconds; the fixed cost is the same everywhere."""

    def __init__(self, rng: random.Random, *, prefill_tokens_per_s: float) -> None:
        self._rng = rng
        self._prefill_tokens_per_s = prefill_tokens_per_s

    def choose(self, choice: Choice) -> int:
        ttft_s = [
            account.backlog_s(choice.now) + uncached / self._prefill_tokens_per_s
            for account, uncached in zip(choice.accounts, choice.uncached_tokens, strict=True)
        ]
        return lowest(ttft_s, self._rng)
