"""NVIDIA Dynamo 1.6's cost with all its weights, by its pages Routing Concepts, Tuning and Router Presets.

`dynamo.py` is the older and shorter form of the same cost.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.policies.desk import Choice
from benchmarks.policies.ties import lowest
from benchmarks.policies.under_way import UnderWay
from replay.policy import Setup


@dataclass(frozen=True, slots=True)
class Weights:
    """Dynamo's options for its cost, with their defaults."""

    credit: float = 1.0
    """Blocks of prefill that a cached block saves (`overlap_score_credit`)."""
    credit_decay: float = 0.0
    """Loss of credit by waiting prefill (`overlap_score_credit_decay`).

    1 halves it if the worker has one prompt of this length more to compute than the least loaded worker.
    """
    prefill_scale: float = 1.0
    """Blocks in use that a block of prefill is worth (`prefill_load_scale`)."""
    request_tokens: float = 0.0
    """Price of each request under way (`decode_active_request_weight`), in tokens instead of blocks."""
    temperature: float = 0.0
    """Randomness of the choice (`router_temperature`): of a softmax over costs between 0 and 1. 0: the lowest cost."""
    has_load_model: bool = False
    """Whether the oldest prefill shrinks as time passes (`router_prefill_load_model`), by the believed rate."""


AGENTIC = Weights(credit=2.0, prefill_scale=4.0, request_tokens=64 * 16)
"""The preset `--agentic`: its 64 blocks for each request were found with blocks of 16 tokens."""

BEST = Weights(prefill_scale=16.0, request_tokens=128 * 16, has_load_model=True)
"""The best of the weights that were tried on conversations and on caches that suffice, see `benchmarks/README.md`."""

BEST_FOR_AGENTS = Weights(credit=2.0, prefill_scale=64.0, request_tokens=512 * 16, has_load_model=True)
"""The best of them on agents whose contexts do not all fit into the caches, but worse on conversations."""


class LinearCost:
    """*prefill_scale* x blocks to compute + blocks in use + price of the requests under way, lowest first.

    Blocks to compute are those of the prompts that wait and of this one, less the credit for its cached blocks, and
    never below 0. Blocks in use are counted once for all requests that share them.
    """

    def __init__(self, setup: Setup, under_way: UnderWay, weights: Weights) -> None:
        self._rng = setup.rng
        self._block_tokens = setup.block_tokens
        self._under_way = under_way
        self._weights = weights

    def choose(self, choice: Choice) -> int:
        costs = self._costs(choice)
        if not self._weights.temperature:
            return lowest(costs, self._rng)
        return drawn(costs, self._weights.temperature, self._rng)

    def _costs(self, choice: Choice) -> list[float]:
        weights, prompt_tokens = self._weights, choice.ask.prompt_tokens
        waiting = [
            account.queued_tokens(choice.now) if weights.has_load_model else account.sent_tokens
            for account in choice.accounts
        ]
        fewest = min(waiting)
        in_use = self._under_way.blocks_with(choice.ask)
        costs = []
        for tokens, hit, blocks, account in zip(waiting, choice.hits, in_use, choice.accounts, strict=True):
            decay = 1.0 + weights.credit_decay * (tokens - fewest) / prompt_tokens
            to_compute = (tokens + prompt_tokens) / self._block_tokens - weights.credit * hit / decay
            price = weights.request_tokens / self._block_tokens * account.requests
            costs.append(weights.prefill_scale * max(0.0, to_compute) + blocks + price)
        return costs


def drawn(costs: Sequence[float], temperature: float, rng: random.Random) -> int:
    """Return the place of one of *costs*, by a softmax of the lowest, with all costs between 0 and 1."""
    least = min(costs)
    spread = max(costs) - least
    if not spread:
        return rng.randrange(len(costs))
    weights = [math.exp((least - cost) / spread / temperature) for cost in costs]
    return rng.choices(range(len(costs)), weights)[0]
