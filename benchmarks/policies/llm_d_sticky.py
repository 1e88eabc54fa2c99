"""llm-d's default since August 2026: its `prefix-cache-affinity-filter` before its `token-load-scorer`."""

import random

from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest

WARM_SHARE = 0.8
"""The filter's `affinityThreshold`."""
PENALTY_S = 18.0
"""The filter's `maxTTFTPenaltyMs`."""


class StickyUntilSaturated:
    """The fewest uncached tokens, of this prompt and those that wait, among the warm workers, while there are such.

    Warm is a worker that holds *warm_share* of the blocks. All workers take part if none is warm, or if the warm one
    with the fewest waiting tokens has *penalty_s* more of them to compute than the other with the fewest. The rate for
    that is the believed one, as llm-d advises to measure it.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        prefill_tokens_per_s: float,
        warm_share: float = WARM_SHARE,
        penalty_s: float = PENALTY_S,
    ) -> None:
        self._rng = rng
        self._warm_share = warm_share
        self._penalty_tokens = penalty_s * prefill_tokens_per_s

    def choose(self, choice: Choice) -> int:
        waiting = [account.sent_tokens for account in choice.accounts]
        candidates = self._candidates(choice, waiting)
        tokens = [waiting[worker] + choice.uncached_tokens[worker] for worker in candidates]
        return candidates[lowest(tokens, self._rng)]

    def _candidates(self, choice: Choice, waiting: list[float]) -> list[int]:
        everyone = list(range(len(choice.accounts)))
        wanted = self._warm_share * len(choice.ask.blocks)
        warm = [worker for worker in everyone if choice.hits[worker] >= wanted > 0]
        others = [worker for worker in everyone if worker not in warm]
        if not warm or not others:
            return everyone
        penalty_tokens = min(waiting[worker] for worker in warm) - min(waiting[worker] for worker in others)
        return warm if penalty_tokens <= self._penalty_tokens else everyone
