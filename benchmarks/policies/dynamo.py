"""NVIDIA Dynamo's cost, in blocks: docs/router and lib/kv-router/src/scheduling, by their description."""

import random

from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest


class BlockCost:
    """*overlap_weight* x (blocks to compute, of what waits and of this prompt) + blocks in use; lowest first.

    A prompt that waits counts whole until its first token, and its blocks are in use from the moment it was sent: where
    answers are long they outweigh the cache at the default weight of 1.
    """

    def __init__(self, rng: random.Random, *, block_tokens: int, overlap_weight: float) -> None:
        self._rng = rng
        self._block_tokens = block_tokens
        self._overlap_weight = overlap_weight

    def choose(self, choice: Choice) -> int:
        costs = [
            self._overlap_weight * (account.sent_tokens + uncached) / self._block_tokens + account.blocks
            for account, uncached in zip(choice.accounts, choice.uncached_tokens, strict=True)
        ]
        return lowest(costs, self._rng)
