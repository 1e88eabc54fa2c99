"""llm-d's weighted scorers, highest sum first: pkg/epp/framework/plugins/scheduling/scorer, by their description."""

import random

from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest


class WeightedScores:
    """Three scores of 0 to 1: share of the prompt held, shortness of the queue, free KV cache; weights as in the chart.

    The queue, between the longest and the shortest, is of requests without a first token. Of *capacity_blocks* those
    are in use that the prompts of running requests pin, for a router does not see the blocks of answers.
    """

    def __init__(
        self, rng: random.Random, *, capacity_blocks: int, prefix: float = 3.0, queue: float = 2.0, kv: float = 2.0
    ) -> None:
        self._rng = rng
        self._capacity_blocks = capacity_blocks
        self._prefix = prefix
        self._queue = queue
        self._kv = kv

    def choose(self, choice: Choice) -> int:
        blocks = max(1, len(choice.ask.blocks))
        queues = [account.pending for account in choice.accounts]
        longest, spread = max(queues), max(queues) - min(queues)
        scores = [
            self._prefix * hit / blocks
            + self._queue * ((longest - account.pending) / spread if spread else 1.0)
            + self._kv * max(0.0, 1 - account.blocks_in_use / self._capacity_blocks)
            for hit, account in zip(choice.hits, choice.accounts, strict=True)
        ]
        return lowest([-score for score in scores], self._rng)
