"""The workers of one model and everything that is known of them.

What happens to requests is told here: booked, first byte, released. Strategies read it through candidates.
"""

from collections.abc import Callable, Container, Iterable, Iterator

from cache_index import CacheIndex, WorkerId
from routing.booking import Booking, Ending, Outcome
from routing.breaker import Breaker
from routing.candidate import Candidate, Excluded, WhyNot
from routing.estimates import BytesPerToken, OutputLength
from routing.rates import Rates
from routing.request import Request
from routing.worker import Worker


class Fleet:
    """Workers that serve one model.

    *block_bytes* is how much text one block of the index covers. *lease_s* is how long a booking may last before it is
    held for lost.
    """

    def __init__(
        self,
        index: CacheIndex,
        *,
        block_bytes: int,
        prefill_tokens_per_s: float = 2000.0,
        lease_s: float = 2100.0,
        breaker: Callable[[], Breaker] = Breaker,
    ) -> None:
        self._index = index
        self._block_bytes = block_bytes
        self._rates = Rates(prefill_tokens_per_s=prefill_tokens_per_s)
        self._lease_s = lease_s
        self._breaker = breaker
        self._workers: dict[WorkerId, Worker] = {}
        self.bytes_per_token = BytesPerToken()
        self.output_length = OutputLength()

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def set_workers(self, workers: Iterable[WorkerId], now: float, *, elsewhere: Container[WorkerId] = ()) -> None:
        """The whole set of workers there are. Those that left are forgotten; their requests may still be released.

        The index keeps what it has of those *elsewhere*: another fleet that shares it still has them.
        """
        wanted = dict.fromkeys(workers)
        for gone in [worker for worker in self._workers if worker not in wanted]:
            del self._workers[gone]
            if gone not in elsewhere:
                self._index.drop(gone)
        for worker in wanted:
            if worker not in self._workers:
                self._workers[worker] = Worker(worker, now, breaker=self._breaker(), rates=self._rates)

    def set_up(self, worker: WorkerId, *, up: bool) -> None:
        """What active health says. A worker that comes back is warmed up like a new one."""
        state = self._workers.get(worker)
        if state is None or state.is_up == up:
            return
        state.is_up = up
        if up:
            state.warmup.restart()
            state.breaker.succeeded()

    def set_asleep(self, worker: WorkerId, *, asleep: bool) -> None:
        """What the engine says of itself. It drops its cache to fall asleep, and is warmed up when it wakes."""
        state = self._workers.get(worker)
        if state is None or state.is_asleep == asleep:
            return
        state.is_asleep = asleep
        if asleep:
            self._index.drop(worker)
            self._fit_capacity(worker)
        else:
            state.warmup.restart()
            state.breaker.succeeded()

    def set_draining(self, worker: WorkerId, *, draining: bool) -> None:
        """What an operator wants: a worker that drains gets no requests, and ends those that it has."""
        state = self._workers.get(worker)
        if state is not None:
            state.is_draining = draining

    def restarted(self, worker: WorkerId) -> None:
        """The engine began a new life: its cache is empty."""
        self._index.drop(worker)
        self._fit_capacity(worker)
        state = self._workers.get(worker)
        if state is not None:
            state.warmup.restart()

    def set_capacity(self, worker: WorkerId, *, blocks: int, block_size: int) -> None:
        """The engine's cache has *blocks* blocks of *block_size* tokens."""
        state = self._workers.get(worker)
        if state is not None:
            state.engine_capacity = (blocks, block_size)
            self._fit_capacity(worker)

    def tick(self, now: float) -> list[Booking]:
        """To be called every few seconds: lost bookings expire and are answered, capacities follow the token ratio."""
        lost: list[Booking] = []
        for worker in self._workers.values():
            lost += worker.expire(now - self._lease_s, now)
            self._fit_capacity(worker.id)
        return lost

    def candidates(self, request: Request, now: float) -> list[Candidate]:
        """Workers that are ready and not cut off by their breaker; if that leaves none, all that are ready.

        Of a pinned request: its worker, if that is ready.
        """
        ready = [worker for worker in self._workers.values() if worker.is_ready]
        if request.pinned is not None:
            ready = [worker for worker in ready if worker.id == request.pinned]
        workers = [worker for worker in ready if worker.breaker.allows(now)] or ready
        return self._as_candidates(workers, request, now)

    def excluded(self, request: Request, now: float) -> list[Excluded]:
        """The workers that are no candidates for *request*, and why."""
        candidates = {candidate.worker for candidate in self.candidates(request, now)}
        others = [worker for worker in self._workers.values() if worker.id not in candidates]
        return [
            Excluded(candidate, _why_not(worker, request))
            for worker, candidate in zip(others, self._as_candidates(others, request, now), strict=True)
        ]

    def book(self, request: Request, candidate: Candidate, now: float) -> Booking | None:
        """Give *request* to the candidate: it counts as load, and its blocks as present, from this moment.

        None if the worker has left, went down, fell asleep or is being drained since it was ranked.
        """
        worker = self._workers.get(candidate.worker)
        if worker is None or not worker.is_ready:
            return None
        uncached = max(1.0, request.prompt_tokens - candidate.hit_tokens)
        brings = self._index.record(worker.id, request.prefix) if request.writes_cache else 0
        booking = Booking(worker.id, request, brings, uncached, worker.prefill_s(uncached), now)
        worker.book(booking, now)
        return booking

    def first_byte(self, booking: Booking, now: float) -> None:
        """The first byte of a stream came. Of other answers nothing is to be told before their release."""
        worker = self._workers.get(booking.worker)
        if worker is not None and booking.request.streams:
            worker.first_byte(booking, now)

    def release(self, booking: Booking, outcome: Outcome, now: float) -> None:
        """The request is over. Must be called once for every booking; what it taught is taken in."""
        worker = self._workers.get(booking.worker)
        if worker is None or booking.booked_at < worker.joined_at:
            return  # a worker that left and came back has nothing to learn from its former life
        worker.release(booking, now)
        if outcome.ending is Ending.ANSWERED:
            self._answered(worker, booking, outcome, now)
        elif booking.is_uncomputed(failed=outcome.ending is Ending.FAILED):
            prefix = booking.request.prefix
            self._index.trim(worker.id, prefix, prefix.blocks - booking.new_blocks)
        if outcome.ending is Ending.FAILED:
            worker.breaker.failed(now)

    def _answered(self, worker: Worker, booking: Booking, outcome: Outcome, now: float) -> None:
        worker.warmup.succeeded()
        worker.breaker.succeeded()
        request = booking.request
        output_blocks = 0
        if outcome.completion_tokens:
            self.output_length.learn(outcome.completion_tokens)
            output_blocks = int(outcome.completion_tokens * self.bytes_per_token.ratio) // self._block_bytes
        uncached = booking.uncached_tokens
        if outcome.prompt_tokens is not None:
            if request.writes_cache:
                self.bytes_per_token.learn(request.prompt_bytes, outcome.prompt_tokens)
            if outcome.cached_tokens is not None:
                uncached = max(1.0, float(outcome.prompt_tokens - outcome.cached_tokens))
        if request.writes_cache or outcome.cached_tokens is not None:  # else nobody knows how much was computed
            worker.learn(booking, now, uncached_tokens=uncached, completion_tokens=outcome.completion_tokens)
        if request.writes_cache:
            # An engine frees the blocks of a request when it ends: that is when they were used last.
            self._index.record(worker.id, request.prefix, output_blocks=output_blocks)

    def _as_candidates(self, workers: list[Worker], request: Request, now: float) -> list[Candidate]:
        hits = self._index.match(request.prefix) if request.reads_cache else {}
        tokens_per_block = self._block_bytes / self.bytes_per_token.ratio
        return [self._candidate(worker, hits.get(worker.id, 0), tokens_per_block, now) for worker in workers]

    def _candidate(self, worker: Worker, hit_blocks: int, tokens_per_block: float, now: float) -> Candidate:
        return Candidate(
            worker.id,
            hit_blocks,
            hit_blocks * tokens_per_block,
            worker.load(now),
            worker.warmup.admits(worker.in_flight),
        )

    def _fit_capacity(self, worker: WorkerId) -> None:
        """Engine blocks of tokens, in index blocks of text."""
        state = self._workers.get(worker)
        if state is not None and state.engine_capacity is not None:
            blocks, block_size = state.engine_capacity
            text_bytes = blocks * block_size * self.bytes_per_token.ratio
            self._index.resize(worker, int(text_bytes / self._block_bytes))


def _why_not(worker: Worker, request: Request) -> WhyNot:
    """Why *worker* is no candidate for *request*."""
    if request.pinned is not None and request.pinned != worker.id:
        return "not the worker that keeps the response"
    return worker.why_not_ready or "breaker open"
