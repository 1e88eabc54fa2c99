"""What is known of one prompt in the caches of all workers, and what follows from it for each."""

from collections.abc import Mapping
from typing import Final

from cache_index import CacheIndex, WorkerId
from cache_index.hit import Hit
from cache_index.value import Value
from routing.candidate import Candidate, Load
from routing.request import Request
from routing.tiers import TierPrices
from routing.worker import Worker


class ToldHit(Value):
    """Blocks by what an engine told, or will tell of what was just sent there."""

    __match_args__ = ("hit", "block_tokens")
    __slots__ = __match_args__

    def __init__(
        self,
        hit: Hit,
        block_tokens: int,
    ) -> None:
        self.hit: Final = hit
        self.block_tokens: Final = block_tokens


_NOTHING: Final = ToldHit(Hit(0), 1)


class Knowledge:
    """Looked up once for a request, asked for each worker.

    *told* is None where nothing told can be used, because the request's exact tokens are unknown. *shadow* is blocks of
    text by what was sent to each worker, as *index* has it, which also knows how full their caches are.
    """

    def __init__(
        self,
        request: Request,
        told: Mapping[WorkerId, ToldHit] | None,
        shadow: Mapping[WorkerId, int],
        tokens_per_block: float,
        prices: TierPrices,
        *,
        index: CacheIndex,
    ) -> None:
        self._request = request
        self._told = told
        self._shadow = shadow
        self._tokens_per_block = tokens_per_block
        self._prices = prices
        self._index = index

    def candidate(self, worker: Worker, now: float) -> Candidate:
        """*worker* as it could answer the request."""
        if self._told is None:
            return self._by_shadow(worker, None, now)
        told = self._told.get(worker.id, _NOTHING)
        # An engine computes the last token of a prompt, and with it all of its block, even if it has cached it.
        blocks = min(told.hit.blocks, int(self._request.prompt_tokens - 1) // told.block_tokens)
        tokens = float(blocks * told.block_tokens)
        if not worker.is_confirmed:
            return self._by_shadow(worker, tokens, now)
        load = worker.load(now)
        load_s = self._prices.blocks(told.hit) * told.block_tokens * load.prefill_s_per_token
        hit_tokens = tokens * worker.told_accuracy.correction
        return Candidate(
            worker.id,
            blocks,
            hit_tokens,
            load,
            worker.warmup.admits(worker.in_flight),
            load_s,
            "confirmed",
            tokens,
            tokens,
            worker.way_s,
            worker.role == "decode",
            evicts_s=self._evicts_s(worker.id, hit_tokens, load),
        )

    def _by_shadow(self, worker: Worker, told_tokens: float | None, now: float) -> Candidate:
        blocks = self._shadow.get(worker.id, 0)
        tokens = min(
            blocks * self._tokens_per_block, self._request.prompt_tokens
        )  # a block's size in tokens is a guess
        hit_tokens = tokens * worker.shadow_accuracy.correction
        load = worker.load(now)
        return Candidate(
            worker.id,
            blocks,
            hit_tokens,
            load,
            worker.warmup.admits(worker.in_flight),
            plain_tokens=tokens,
            told_tokens=told_tokens,
            way_s=worker.way_s,
            fetches=worker.role == "decode",
            evicts_s=self._evicts_s(worker.id, hit_tokens, load),
        )

    def _evicts_s(self, worker: WorkerId, hit_tokens: float, load: Load) -> float:
        """What is new of prompt and answer, and has no room, pushes out as much; some of it will be asked for again."""
        chance = self._index.oldest_chance(worker)
        if chance <= 0.0:
            return 0.0
        new_tokens = max(0.0, self._request.prompt_tokens - hit_tokens) + self._request.output_tokens
        pushed_out = new_tokens - self._index.room(worker) * self._tokens_per_block
        return max(0.0, pushed_out) * chance * load.prefill_s_per_token
