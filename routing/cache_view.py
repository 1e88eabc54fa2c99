"""Predicted and reported cache contents of a fleet's workers."""

from collections.abc import Mapping, Sequence

from cache_index import CacheIndex, Prefix, WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Tier
from routing.booking import Booking
from routing.cache_hits import CacheHits, ReportedHit
from routing.learning.estimates import BytesPerToken
from routing.pull_outcomes import PullOutcomes
from routing.pulls import Peers, may_send
from routing.request import Request
from routing.sessions import Newcomer, Sessions
from routing.worker import Worker, usual_busy_share


class CacheView:
    """Record what requests add to the caches of *workers*, and look up prompts in these caches.

    *index* predicts cache contents from the prompts sent to each worker. *confirmed* holds the contents that engines
    report in cache events. The reported contents are used for trusted workers, and for requests whose exact tokens are
    known. *block_bytes* is the number of bytes of text in one block of *index*.
    """

    def __init__(
        self,
        workers: Mapping[WorkerId, Worker],
        index: CacheIndex,
        confirmed: Confirmed | None,
        *,
        block_bytes: int,
        bytes_per_token: BytesPerToken,
        sessions: Sessions,
        pulls: PullOutcomes,
    ) -> None:
        self.block_sizes: Sequence[int] = ()
        """Distinct block sizes in tokens of the caches that engines report, in ascending order.

        `note_block_sizes` updates this list. Every request reads the list, and it rarely changes.
        """
        self._workers = workers
        self._index = index
        self._confirmed = confirmed
        self._block_bytes = block_bytes
        self._bytes_per_token = bytes_per_token
        self._sessions = sessions
        self._pulls = pulls

    def hits(self, request: Request, workers: list[Worker], now: float, newcomer: Newcomer | None = None) -> CacheHits:
        """Look up the prompt of *request* in the caches of all *workers* at once."""
        reported: dict[WorkerId, ReportedHit] | None = None
        predicted: Mapping[WorkerId, int] = {}
        if request.reads_cache:
            if self._confirmed is not None and request.exact:
                reported = {}
                for prefix in request.exact:
                    for worker, hit in self._confirmed.match(prefix, now).items():
                        reported[worker] = ReportedHit(hit, prefix.block_tokens)
            if reported is None or not all([worker.is_confirmed for worker in workers]):  # noqa: C419  # faster
                predicted = self._index.match(request.prefix)
        tokens_per_block = self._block_bytes / self._bytes_per_token.ratio
        peers = self._peers(request, now) if request.pulls and reported is not None else None
        return CacheHits(
            request,
            reported,
            predicted,
            tokens_per_block,
            index=self._index,
            mean_pace=_mean_pace(workers),
            usual_share=usual_busy_share(workers, now),
            newcomer=newcomer,
            peers=peers,
        )

    def _peers(self, request: Request, now: float) -> Peers | None:
        """Return the workers that could send cached blocks of *request*, or None if no worker should pull them."""
        too_early = self._sessions.requests < self._pulls.after_requests
        if self._confirmed is None or len(request.exact) != 1 or too_early:
            return None
        prefix = request.exact[0]
        tokens = {
            worker: float(blocks * prefix.block_tokens)
            for worker, blocks in self._confirmed.match_in(prefix, Tier.CPU).items()
            if worker in self._workers and may_send(self._workers[worker]) and self._pulls.may_send(worker, now)
        }
        return Peers(tokens, prefix.block_tokens, self._sessions, len(self._workers))

    def record_prompt(self, worker: WorkerId, request: Request, now: float) -> int:
        """Record that *worker* will cache the prompt of *request*. Return the number of newly cached blocks."""
        new_blocks = self._index.record(worker, request.prefix) if request.writes_cache else 0
        self.expect_report(worker, request, now)
        return new_blocks

    def answer_blocks(self, completion_tokens: int) -> int:
        """Return the number of index blocks that an answer of *completion_tokens* tokens fills."""
        return int(completion_tokens * self._bytes_per_token.ratio) // self._block_bytes

    def record_answer(self, worker: WorkerId, request: Request, answer_blocks: int) -> None:
        """Record the last use of the prompt of *request* and add *answer_blocks* blocks of its answer.

        The time of last use is the end of the request, because an engine frees the request's blocks at its end.
        """
        if request.writes_cache:
            self._index.record(worker, request.prefix, output_blocks=answer_blocks)

    def expect_report(self, worker: WorkerId, request: Request, now: float) -> None:
        """Expect a cache event for the prompt of *request* from the engine of *worker* soon."""
        if self._confirmed is not None and request.writes_cache:
            for prefix in self._exact(worker, request):
                self._confirmed.predict(worker, prefix, now)

    def take_back(self, booking: Booking) -> None:
        """Undo the effect of `record_prompt` for *booking*, because the prompt was not computed."""
        request = booking.request
        self._index.trim(booking.worker, request.prefix, request.prefix.blocks - booking.new_blocks)
        if self._confirmed is not None and request.writes_cache:
            for prefix in self._exact(booking.worker, request):
                kept = int(booking.reported_tokens or 0) // prefix.block_tokens
                self._confirmed.retract(booking.worker, prefix, kept)

    def clear(self, worker: WorkerId) -> None:
        """Clear the predicted cache contents of *worker*. Engines report it themselves when their cache is cleared."""
        self._index.drop(worker)
        self.fit_capacity(worker)

    def clear_all(self) -> None:
        """Clear all predicted cache contents. Lookups could not find the old entries, because the hash key changes."""
        for worker in self._workers:
            self.clear(worker)

    def forget(self, worker: WorkerId) -> None:
        """Remove all cache contents of *worker*, because it has left the fleet."""
        self._index.drop(worker)
        if self._confirmed is not None:
            self._confirmed.drop(worker)

    def fit_capacity(self, worker: WorkerId) -> None:
        """Set the index capacity of *worker* by converting the engine's token blocks to the index's text blocks.

        If a slower tier of the worker is larger than its GPU cache, the capacity is that of the tier. A block that the
        GPU evicts is then loaded again instead of computed, so only the evictions of the tier cost much.
        """
        state = self._workers.get(worker)
        if state is not None and state.engine_capacity is not None:
            blocks, block_size = state.engine_capacity
            if self._confirmed is not None and state.is_confirmed:
                if state.host_tokens is None:
                    blocks = max(blocks, _slower_capacity(self._confirmed, worker, blocks))
                else:
                    blocks = max(blocks, state.host_tokens // block_size)
            text_bytes = blocks * block_size * self._bytes_per_token.ratio
            self._index.resize(worker, int(text_bytes / self._block_bytes))

    def note_block_sizes(self) -> None:
        """Update `block_sizes`.

        Untrusted workers that report cache events are included, because correct predictions are the only way for a
        worker to become trusted.
        """
        sizes = {
            self._block_size(worker) if state.is_trusted else self._reported_block_size(worker)
            for worker, state in self._workers.items()
        }
        self.block_sizes = sorted(size for size in sizes if size is not None)

    def _exact(self, worker: WorkerId, request: Request) -> list[Prefix]:
        """Return the exact tokens of *request*'s prompt in blocks of *worker*'s size, or [] if they are unknown."""
        size = self._block_size(worker) if request.exact else None
        return [prefix for prefix in request.exact if prefix.block_tokens == size]

    def _block_size(self, worker: WorkerId) -> int | None:
        """Return the block size from the engine's cache events or, before the first event, from its metrics."""
        reported = self._reported_block_size(worker)
        if reported is not None:
            return reported
        state = self._workers.get(worker)
        return state.engine_capacity[1] if state is not None and state.engine_capacity is not None else None

    def _reported_block_size(self, worker: WorkerId) -> int | None:
        return self._confirmed.block_size(worker) if self._confirmed is not None else None


def _mean_pace(workers: list[Worker]) -> float:
    """Return the mean of the times of *workers* relative to the rates of the fleet."""
    total = 0.0
    for worker in workers:
        total += worker.speed.pace.factor
    return total / max(1, len(workers))


def _slower_capacity(confirmed: Confirmed, worker: WorkerId, gpu_blocks: int) -> int:
    """Return the capacity in blocks of the largest slower tier of *worker*, or 0 without such a tier.

    A tier that has removed no block yet counts as having room for as many blocks as the GPU holds.
    """
    largest = 0
    for tier in (Tier.CPU, Tier.DISK):
        held = confirmed.held_in(worker, tier)
        if held:
            capacity = confirmed.capacity_of(worker, tier)
            largest = max(largest, held + gpu_blocks if capacity is None else capacity)
    return largest
