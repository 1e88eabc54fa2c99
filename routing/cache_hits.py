"""The hits of one prompt in the caches of all workers, and the candidates that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cache_index import CacheIndex, WorkerId
from cache_index.hit import Hit
from cache_index.value import Value
from routing.candidate import Candidate, Load
from routing.request import Request
from routing.worker import Worker


@dataclass(frozen=True, slots=True)
class TierPrices:
    """Time to load a cached block that is not on the GPU, as a share of the time to compute it, 0 to 1.

    The defaults match the credits of NVIDIA Dynamo's router: 0.75 for host memory, 0.25 for disks, 0.5 for shared ones.
    """

    cpu: float = 0.25
    disk: float = 0.75
    shared: float = 0.5

    def blocks(self, hit: Hit) -> float:
        """Return the number of blocks that could be computed in the time that loading *hit* takes."""
        return hit.cpu * self.cpu + hit.disk * self.disk + hit.shared * self.shared


class ReportedHit(Value):
    """Cached blocks by an engine's reports, including those expected for requests that were just sent."""

    __match_args__ = ("hit", "block_tokens")
    __slots__ = __match_args__

    def __init__(
        self,
        hit: Hit,
        block_tokens: int,
    ) -> None:
        self.hit: Final = hit
        self.block_tokens: Final = block_tokens


_NOTHING: Final = ReportedHit(Hit(0), 1)


class CacheHits:
    """Hits that were looked up once for a request, to make a candidate of each worker.

    *reported* is None where reports cannot be used because the request's exact tokens are unknown. *predicted* counts
    blocks of text that were sent to each worker, from *index*, which also knows how full the caches are.
    """

    def __init__(
        self,
        request: Request,
        reported: Mapping[WorkerId, ReportedHit] | None,
        predicted: Mapping[WorkerId, int],
        tokens_per_block: float,
        prices: TierPrices,
        *,
        index: CacheIndex,
    ) -> None:
        self._request = request
        self._reported = reported
        self._predicted = predicted
        self._tokens_per_block = tokens_per_block
        self._prices = prices
        self._index = index

    def candidate(self, worker: Worker, now: float) -> Candidate:
        """Return *worker* as a candidate for the request."""
        if self._reported is None:
            return self._predicted_candidate(worker, None, now)
        reported = self._reported.get(worker.id, _NOTHING)
        # An engine computes the last token of a prompt, and with it all of its block, even if it has cached it.
        blocks = min(reported.hit.blocks, int(self._request.prompt_tokens - 1) // reported.block_tokens)
        tokens = float(blocks * reported.block_tokens)
        if not worker.is_confirmed:
            return self._predicted_candidate(worker, tokens, now)
        load = worker.load(now)
        load_s = self._prices.blocks(reported.hit) * reported.block_tokens * load.prefill_s_per_token
        hit_tokens = tokens * worker.hit_accuracy.reported.correction
        return Candidate(
            worker.id,
            blocks,
            hit_tokens,
            load,
            worker.warmup.admits(worker.in_flight),
            load_s,
            "reported",
            tokens,
            tokens,
            worker.zone_penalty_s,
            worker.role == "decode",
            evicts_s=self._evicts_s(worker.id, hit_tokens, load),
        )

    def _predicted_candidate(self, worker: Worker, reported_tokens: float | None, now: float) -> Candidate:
        blocks = self._predicted.get(worker.id, 0)
        # The size of a block in tokens is an estimate.
        tokens = min(blocks * self._tokens_per_block, self._request.prompt_tokens)
        hit_tokens = tokens * worker.hit_accuracy.predicted.correction
        load = worker.load(now)
        return Candidate(
            worker.id,
            blocks,
            hit_tokens,
            load,
            worker.warmup.admits(worker.in_flight),
            plain_tokens=tokens,
            reported_tokens=reported_tokens,
            zone_penalty_s=worker.zone_penalty_s,
            fetches=worker.role == "decode",
            evicts_s=self._evicts_s(worker.id, hit_tokens, load),
        )

    def _evicts_s(self, worker: WorkerId, hit_tokens: float, load: Load) -> float:
        """Expected seconds to compute evicted blocks again: new tokens without room evict as many others."""
        chance = self._index.oldest_chance(worker)
        if chance <= 0.0:
            return 0.0
        new_tokens = max(0.0, self._request.prompt_tokens - hit_tokens) + self._request.output_tokens
        evicted = new_tokens - self._index.room(worker) * self._tokens_per_block
        return max(0.0, evicted) * chance * load.prefill_s_per_token
