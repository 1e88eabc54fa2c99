"""Cache hits of one prompt on all workers, and the routing candidates made from these hits."""

from collections.abc import Mapping
from typing import Final

from cache_index import CacheIndex, WorkerId
from cache_index.hit import Hit
from cache_index.native import mypyc_attr
from cache_index.value import Value
from routing.candidate import Candidate, Load
from routing.loads import loads_of
from routing.pull import Pull
from routing.pulls import Missing, Peers
from routing.request import Request
from routing.sessions import Newcomer
from routing.worker import Worker


@mypyc_attr(acyclic=True)
class ReportedHit(Value):
    """Cached blocks that an engine reported in cache events, with blocks expected from recently sent requests."""

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
    """Cache hits of one request on all workers, looked up once. Each worker's routing candidate is made from them.

    *reported* maps workers to hits in the contents that engines report. It is None if the exact tokens of the request
    are unknown, because the reported contents then cannot be searched. *predicted* maps workers to the number of text
    blocks of the prompt that *index* predicts in their caches. *index* also predicts how full each cache is. *peers*
    are the workers from which others can pull blocks, or None without pulls. *mean_pace* is the mean of the workers'
    times relative to the rates of the fleet. *usual_share* is their busy share, see `Worker.load`.
    """

    def __init__(
        self,
        request: Request,
        reported: Mapping[WorkerId, ReportedHit] | None,
        predicted: Mapping[WorkerId, int],
        tokens_per_block: float,
        *,
        index: CacheIndex,
        mean_pace: float,
        usual_share: float,
        newcomer: Newcomer | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._request = request
        self._reported = reported
        self._predicted = predicted
        self._tokens_per_block = tokens_per_block
        self._index = index
        self._mean_pace = mean_pace
        self._usual_share = usual_share
        self._newcomer = newcomer
        self._peers = peers

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
        load = worker.load(now, self._usual_share)
        loads = loads_of(reported.hit, reported.block_tokens)
        hit_tokens = tokens * worker.hit_accuracy.reported.correction
        # The space that a pulled copy takes costs as much as that of computed blocks.
        evicts_s = self._evicts_s(worker, hit_tokens)
        pull = self._pull(worker, tokens, load)
        if pull is not None:
            hit_tokens, loads = hit_tokens + pull.tokens, loads.pulling(pull.tokens)
        return Candidate(
            worker.id,
            blocks,
            hit_tokens,
            load,
            worker.warmup.admits(worker.in_flight),
            worker.speed.load_s(loads),
            "reported",
            tokens,
            tokens,
            worker.zone_penalty_s,
            worker.role == "decode",
            evicts_s=evicts_s,
            loads=loads,
            displaces_s=self._displaces_s(worker),
            pull=pull,
        )

    def _pull(self, worker: Worker, held_tokens: float, load: Load) -> Pull | None:
        """Return what *worker*, which holds *held_tokens* tokens of the prompt, should pull from another worker."""
        if self._peers is None or self._newcomer is not None:
            return None
        # An engine computes the last token of a prompt, and with it all of its block, even if it has cached it.
        missing = Missing(held_tokens, self._request.prompt_tokens - 1.0)
        capacity_tokens = self._index.capacity(worker.id) * self._tokens_per_block
        return self._peers.pull(worker, missing, capacity_tokens, load.prefill_s_per_token)

    def _predicted_candidate(self, worker: Worker, reported_tokens: float | None, now: float) -> Candidate:
        blocks = self._predicted.get(worker.id, 0)
        # The size of a block in tokens is an estimate.
        tokens = min(blocks * self._tokens_per_block, self._request.prompt_tokens)
        hit_tokens = tokens * worker.hit_accuracy.predicted.correction
        load = worker.load(now, self._usual_share)
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
            evicts_s=self._evicts_s(worker, hit_tokens),
            displaces_s=self._displaces_s(worker),
        )

    def _evicts_s(self, worker: Worker, hit_tokens: float) -> float:
        """Return the expected seconds to recompute the cached blocks that the request would evict.

        The time is the mean of all workers, because any of them may compute the blocks: the cache of a fast worker is
        worth as much as that of a slow one.
        """
        chance = self._index.oldest_chance(worker.id)
        if chance <= 0.0:
            return 0.0
        new_tokens = max(0.0, self._request.prompt_tokens - hit_tokens) + self._request.output_tokens
        evicted = new_tokens - self._index.room(worker.id) * self._tokens_per_block
        return max(0.0, evicted) * chance * self._recompute_s_per_token(worker)

    def _displaces_s(self, worker: Worker) -> float:
        """Return the expected seconds to recompute what other sessions lose if a new session begins on *worker*."""
        if self._newcomer is None:
            return 0.0
        capacity_tokens = self._index.capacity(worker.id) * self._tokens_per_block
        return self._newcomer.displaced_tokens(worker.id, capacity_tokens) * self._recompute_s_per_token(worker)

    def _recompute_s_per_token(self, worker: Worker) -> float:
        """Return the mean seconds in which a worker of the fleet of *worker* computes a token."""
        return worker.speed.rates.prefill_s_per_token * self._mean_pace
