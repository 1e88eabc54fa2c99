"""Workers of one model, with their availability, their load, and their cache contents."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from cache_index import CacheIndex, WorkerId
from cache_index.confirmed import Confirmed
from routing.booking import Booking
from routing.booking_observer import BookingObserver
from routing.bookings import Bookings
from routing.breaker import Breaker
from routing.cache_view import CacheView
from routing.candidate import Candidate, Excluded, WhyNot
from routing.explanation import longest_wait_s, prefill_s
from routing.learning.estimates import BytesPerToken, OutputLength
from routing.learning.load_rates import TierPrices
from routing.learning.rates import Rates
from routing.membership import Membership
from routing.pools import Reach, reach
from routing.pull_outcomes import PullOutcomes
from routing.request import Request
from routing.sessions import Sessions
from routing.worker import Worker


class Fleet:
    """Workers that serve one model.

    *index*, *confirmed* and *block_bytes* are passed to `CacheView`, and *observer* is passed to `Bookings`.
    *tier_prices* are the prices of loads until loads have been measured. *lease_s* is the number of seconds after which
    an unreleased booking counts as lost. If the workers form several pools, a request may use the next pool only while
    every worker of the earlier pools has more than *spill_backlog_s* seconds of prefill backlog.
    """

    def __init__(
        self,
        index: CacheIndex,
        *,
        confirmed: Confirmed | None = None,
        tier_prices: TierPrices = TierPrices(),  # noqa: B008  # frozen
        block_bytes: int,
        prefill_tokens_per_s: float = 2000.0,
        lease_s: float = 2100.0,
        breaker: Callable[[], Breaker] = Breaker,
        spill_backlog_s: float = 5.0,
        observer: BookingObserver | None = None,
    ) -> None:
        self.bytes_per_token = BytesPerToken()
        self.output_length = OutputLength()
        self.sessions = Sessions()
        self.pulls = PullOutcomes()
        self._rates = Rates(prefill_tokens_per_s=prefill_tokens_per_s, tier_prices=tier_prices)
        self._lease_s = lease_s
        self._spill_backlog_s = spill_backlog_s
        self.members = Membership(breaker=breaker, rates=self._rates)
        self._workers = self.members.workers
        self.caches = CacheView(
            self._workers,
            index,
            confirmed,
            block_bytes=block_bytes,
            bytes_per_token=self.bytes_per_token,
            sessions=self.sessions,
            pulls=self.pulls,
        )
        self.bookings = Bookings(
            self._workers,
            self.caches,
            rates=self._rates,
            bytes_per_token=self.bytes_per_token,
            output_length=self.output_length,
            sessions=self.sessions,
            pulls=self.pulls,
            observer=observer,
        )

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def worker(self, worker: WorkerId) -> Worker:
        """Return the state of *worker*. Raise ``KeyError`` if *worker* is not in the fleet."""
        return self._workers[worker]

    def set_workers(self, workers: Iterable[WorkerId], now: float, *, elsewhere: Container[WorkerId] = ()) -> None:
        """Set the workers of the fleet. Workers that left are forgotten, but their requests can still be released.

        The index keeps the entries of departed workers in *elsewhere*, because another fleet that shares the index
        still has these workers.
        """
        for worker in self.members.replace(workers, now):
            self.sessions.forget_worker(worker)
            self.pulls.forget_worker(worker)
            if worker not in elsewhere:
                self.caches.forget(worker)

    # ---- reports about one worker; those about absent workers are ignored

    def set_up(self, worker: WorkerId, *, up: bool) -> None:
        """Apply the result of an active health check of a worker. A recovered worker warms up like a new one."""
        state = self._workers.get(worker)
        if state is None or state.is_up == up:
            return
        state.is_up = up
        if up:
            state.begin_incarnation()

    def set_asleep(self, worker: WorkerId, *, asleep: bool) -> None:
        """Apply the engine's sleep state. A sleeping engine drops its cache, and a waking engine warms up again."""
        state = self._workers.get(worker)
        if state is None or state.is_asleep == asleep:
            return
        state.is_asleep = asleep
        if asleep:
            self._clear_cache(worker)
        else:
            state.begin_incarnation()

    def set_draining(self, worker: WorkerId, *, draining: bool) -> None:
        """Apply an operator's drain request. A draining worker gets no new requests but completes its running ones."""
        state = self._workers.get(worker)
        if state is not None:
            state.is_draining = draining

    def engine_restarted(self, worker: WorkerId) -> None:
        """Reset the state of *worker*, because its engine restarted with an empty cache."""
        self._clear_cache(worker)
        state = self._workers.get(worker)
        if state is not None:
            state.begin_incarnation()
            state.hit_accuracy.forget()

    def set_trusted(self, worker: WorkerId, *, trusted: bool) -> None:
        """Set whether the engine's cache events are complete. If not, routing uses predictions for the worker."""
        state = self._workers.get(worker)
        if state is not None:
            state.is_trusted = trusted
            self.caches.note_block_sizes()

    def engine_queue_reported(self, worker: WorkerId, waiting: float, now: float) -> None:
        """Correct the load of *worker*, whose engine reports *waiting* requests in its queue."""
        state = self._workers.get(worker)
        if state is not None:
            state.engine_queue_reported(waiting, now)

    def set_capacity(self, worker: WorkerId, *, blocks: int, block_size: int) -> None:
        """Set the cache size of a worker's engine: *blocks* blocks of *block_size* tokens."""
        state = self._workers.get(worker)
        if state is not None:
            state.engine_capacity = (blocks, block_size)
            self.caches.fit_capacity(worker)

    def set_host_tokens(self, tokens: Mapping[WorkerId, int]) -> None:
        """Set the number of tokens that the host memory of each worker's engine can hold. Without a number, it is
        learned from cache events.
        """
        for worker, state in self._workers.items():
            state.host_tokens = tokens.get(worker)
            self.caches.fit_capacity(worker)

    # ---- learned times

    def token_times(self) -> tuple[float, float]:
        """Return the worker seconds per computed prompt token and per generated token.

        Tokens that are generated in the same step share the time of that step.
        """
        busy = [worker.in_flight for worker in self if worker.in_flight]
        streams = sum(busy) / len(busy) if busy else 1.0
        return self._rates.prefill_s_per_token, self._rates.decode.predict(streams - 1.0) / streams

    def decode_times(self) -> tuple[float, float]:
        """Return the learned seconds per token of a lone stream, and the seconds that each other stream adds."""
        alone_s = self._rates.decode.predict(0.0)
        return alone_s, self._rates.decode.predict(1.0) - alone_s

    @property
    def has_learned(self) -> bool:
        """Whether any prefill was measured. Until then, predicted times come from the settings alone."""
        return self._rates.are_learned

    def usual_gap_s(self, worker: WorkerId) -> float | None:
        """Return the recent seconds between two tokens of a stream of *worker*, or None if they are unknown."""
        state = self._workers.get(worker)
        return None if state is None else state.speed.usual_gap_s

    def tick(self, now: float) -> list[Booking]:
        """Expire lost bookings and return them, and adapt the index capacities to the learned bytes per token.

        Call this method every few seconds.
        """
        lost: list[Booking] = []
        self.caches.note_block_sizes()
        for worker in self._workers.values():
            lost += worker.expire(now - self._lease_s, now)
            self.caches.fit_capacity(worker.id)
            for booking in worker.pending:
                self.caches.expect_report(worker.id, booking.request, now)
        self.bookings.report_lost(lost, now)
        return lost

    # ---- which workers a request may choose

    def candidates(self, request: Request, now: float, *, begins_session: bool = False) -> list[Candidate]:
        """Return the ready workers whose circuit breaker is closed, or all ready workers if no breaker is closed.

        A pinned request has at most one candidate, the worker to which it is pinned. A request with allowed workers has
        only those as candidates.
        """
        ready = [worker for worker in self._workers.values() if worker.is_ready]
        if self.members.has_roles:
            ready = [worker for worker in ready if worker.role != "prefill"]
        if request.pinned is not None:
            ready = [worker for worker in ready if worker.id == request.pinned]
        if request.allowed is not None:
            ready = [worker for worker in ready if worker.id in request.allowed]
        workers = [worker for worker in ready if worker.breaker.allows(now)] or ready
        return self._as_candidates(workers, request, now, begins_session=begins_session)

    def prefill_candidates(self, request: Request, now: float) -> list[Candidate]:
        """Return the prefill workers that could compute the prompt of *request*, selected as in `candidates`."""
        ready = [worker for worker in self._workers.values() if worker.is_ready and worker.role == "prefill"]
        if request.allowed is not None:
            ready = [worker for worker in ready if worker.id in request.allowed]
        workers = [worker for worker in ready if worker.breaker.allows(now)] or ready
        return self._as_candidates(workers, request, now)

    def cut_off(self, request: Request, now: float) -> list[Candidate]:
        """Return the workers that are excluded only by an open circuit breaker, least loaded first.

        These workers are the last resort after all other workers have failed *request*.
        """
        ready = [w for w in self._workers.values() if w.is_answering and request.pinned in (None, w.id)]
        if request.allowed is not None:
            ready = [worker for worker in ready if worker.id in request.allowed]
        behind = [worker for worker in ready if not worker.breaker.allows(now)]
        return sorted(self._as_candidates(behind, request, now), key=lambda each: each.load.backlog_s)

    def reach(self, request: Request, candidates: list[Candidate], waits_s: Sequence[float] | None = None) -> Reach:
        """Divide *candidates* into those that *request* can use now, and reserves in later pools.

        *waits_s* is the predicted wait of the request for each candidate. If it is None, each candidate's backlog is
        used.
        """
        if not self.members.has_pools:
            return Reach(candidates, [])
        longest_s = self._spill_backlog_s
        if request.spill_in_s is not None and candidates:
            longest_s = longest_wait_s(request.spill_in_s, min([prefill_s(request, each) for each in candidates]))
        if waits_s is None:
            waits_s = [candidate.load.backlog_s for candidate in candidates]
        tiers = [self._workers[candidate.worker].tier for candidate in candidates]
        return reach(candidates, tiers, waits_s, longest_s)

    def excluded(self, request: Request, now: float) -> list[Excluded]:
        """Return the workers that are not candidates for *request*, each with the reason."""
        candidates = {candidate.worker for candidate in self.candidates(request, now)}
        others = [worker for worker in self._workers.values() if worker.id not in candidates]
        return [
            Excluded(candidate, _why_not(worker, request))
            for worker, candidate in zip(others, self._as_candidates(others, request, now), strict=True)
        ]

    @property
    def size(self) -> int:
        """Number of workers of the fleet, ready or not."""
        return len(self._workers)

    def left_out(self, request: Request, order: Sequence[Candidate], most: int) -> list[tuple[str, WhyNot]]:
        """Return up to *most* workers that are not candidates in *order*, each with the reason. O(workers)."""
        ranked = {candidate.worker for candidate in order}
        others = [worker for worker in self._workers.values() if worker.id not in ranked]
        return [(worker.id, _why_not(worker, request)) for worker in others[:most]]

    def _clear_cache(self, worker: WorkerId) -> None:
        self.caches.clear(worker)
        self.sessions.forget_worker(worker)

    def _as_candidates(
        self, workers: list[Worker], request: Request, now: float, *, begins_session: bool = False
    ) -> list[Candidate]:
        newcomer = None
        if begins_session:
            in_flight = 0
            for worker in self._workers.values():
                in_flight += worker.in_flight
            newcomer = self.sessions.newcomer(in_flight)
        hits = self.caches.hits(request, workers, now, newcomer)
        return [hits.candidate(worker, now) for worker in workers]


def _why_not(worker: Worker, request: Request) -> WhyNot:
    if worker.role == "prefill":
        return "a prefill worker"
    if request.pinned is not None and request.pinned != worker.id:
        return "not the worker that keeps the response"
    if request.allowed is not None and worker.id not in request.allowed:
        return "not among the allowed workers"
    return worker.why_not_ready or "breaker open"
