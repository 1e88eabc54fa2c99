"""Policy A: as the first token sooner, but work that could have been cached is dear while others would wait for it."""

import math
import random

from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest

DECODE_PRICE_S = 0.002
"""Seconds of time to first token for each running answer that would be slowed."""
PRICE_LIMIT = 4.0
MEMORY_S = 30.0


class Externality:
    """Backlog + own prefill x (1 + x) + 2 ms x decodes, lowest first, where x = rho / (1 - rho), 4 at most.

    rho is the share of workers that have prefill to do, smoothed over *memory_s* seconds, seen at every choice.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        prefill_tokens_per_s: float,
        prefill_fixed_s: float = 0.01,
        memory_s: float = MEMORY_S,
    ) -> None:
        self._rng = rng
        self._prefill_tokens_per_s = prefill_tokens_per_s
        self._prefill_fixed_s = prefill_fixed_s
        self._memory_s = memory_s
        self._busy_share = 0.0
        self._seen_at = 0.0

    def choose(self, choice: Choice) -> int:
        price = 1.0 + self._price(choice)
        costs_s = [
            account.backlog_s(choice.now)
            + (self._prefill_fixed_s + uncached / self._prefill_tokens_per_s) * price
            + DECODE_PRICE_S * account.decodes
            for account, uncached in zip(choice.accounts, choice.uncached_tokens, strict=True)
        ]
        return lowest(costs_s, self._rng)

    def _price(self, choice: Choice) -> float:
        """Seconds that a second of prefill costs those who come after."""
        busy = sum(1 for account in choice.accounts if account.pending) / len(choice.accounts)
        keep = math.exp((self._seen_at - choice.now) / self._memory_s)
        self._busy_share = self._busy_share * keep + busy * (1.0 - keep)
        self._seen_at = choice.now
        return min(PRICE_LIMIT, self._busy_share / max(1e-9, 1.0 - self._busy_share))
