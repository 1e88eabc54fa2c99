"""LMetric, arXiv 2603.15202: new prefill tokens times batch size, without a parameter."""

import random

from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest


class LMetric:
    """(Tokens to compute of what waits and of this prompt) x (requests under way + 1), lowest first.

    A prompt that waits counts whole until its first token.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def choose(self, choice: Choice) -> int:
        products = [
            (account.sent_tokens + uncached) * (account.requests + 1)
            for account, uncached in zip(choice.accounts, choice.uncached_tokens, strict=True)
        ]
        return lowest(products, self._rng)
