"""What is known of one prompt in the caches of all workers, and what follows from it for each."""

from collections.abc import Mapping

import msgspec

from cache_index import WorkerId
from cache_index.hit import Hit
from routing.candidate import Candidate
from routing.request import Request
from routing.tiers import TierPrices
from routing.worker import Worker


class ToldHit(msgspec.Struct, frozen=True, gc=False):
    """Blocks by what an engine told, or will tell of what was just sent there."""

    hit: Hit
    block_tokens: int


_NOTHING = ToldHit(Hit(0), 1)


class Knowledge:
    """Looked up once for a request, asked for each worker.

    *told* is None where nothing told can be used, because the request's exact tokens are unknown. *shadow* is blocks of
    text by what was sent to each worker.
    """

    def __init__(
        self,
        request: Request,
        told: Mapping[WorkerId, ToldHit] | None,
        shadow: Mapping[WorkerId, int],
        tokens_per_block: float,
        prices: TierPrices,
    ) -> None:
        self._request = request
        self._told = told
        self._shadow = shadow
        self._tokens_per_block = tokens_per_block
        self._prices = prices

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
        return Candidate(
            worker.id,
            blocks,
            tokens * worker.told_accuracy.correction,
            load,
            worker.warmup.admits(worker.in_flight),
            load_s,
            "confirmed",
            tokens,
            tokens,
            worker.way_s,
        )

    def _by_shadow(self, worker: Worker, told_tokens: float | None, now: float) -> Candidate:
        blocks = self._shadow.get(worker.id, 0)
        tokens = blocks * self._tokens_per_block
        return Candidate(
            worker.id,
            blocks,
            tokens * worker.shadow_accuracy.correction,
            worker.load(now),
            worker.warmup.admits(worker.in_flight),
            plain_tokens=tokens,
            told_tokens=told_tokens,
            way_s=worker.way_s,
        )
