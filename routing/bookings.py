"""Bookings of one fleet: the requests assigned to its workers, and the statistics learned from their outcomes."""

from collections.abc import Mapping
from typing import Final

from cache_index import Prefix, WorkerId
from routing.booking import Booking, Ending, Outcome
from routing.booking_observer import BookingObserver
from routing.breaker import Breaker
from routing.cache_view import CacheView
from routing.candidate import Candidate
from routing.learning.estimates import BytesPerToken, OutputLength
from routing.learning.rates import Rates
from routing.loads import NO_LOADS
from routing.pull_outcomes import PullOutcomes
from routing.request import BATCH, Request
from routing.sessions import Sessions
from routing.shared_worker_load import SharedWorkerLoad
from routing.worker import Worker

HIT_TOLERANCE: Final = 0.1
"""Relative error of a predicted hit up to which an answer shows how long its blocks took to load."""


class Bookings:
    """Assign requests to *workers* and release them.

    *observer* is notified of every booking made by `book`. `book_elsewhere` adds bookings of other gateway replicas,
    and `book_beside` adds bookings of other fleets on a shared worker. Bookings of both kinds count as load, but
    nothing is learned from them.
    """

    def __init__(
        self,
        workers: Mapping[WorkerId, Worker],
        caches: CacheView,
        *,
        rates: Rates,
        bytes_per_token: BytesPerToken,
        output_length: OutputLength,
        sessions: Sessions,
        pulls: PullOutcomes,
        observer: BookingObserver | None,
    ) -> None:
        self._workers = workers
        self._caches = caches
        self._rates = rates
        self._bytes_per_token = bytes_per_token
        self._output_length = output_length
        self._sessions = sessions
        self._pulls = pulls
        self._observer = observer
        self._shared_load: SharedWorkerLoad | None = None

    def set_shared_load(self, shared_load: SharedWorkerLoad | None) -> None:
        """Set the object that passes bookings on to other fleets with the same workers, or None without such fleets."""
        self._shared_load = shared_load

    def own_in_flight(self, worker: WorkerId) -> int:
        """Return the number of requests for this fleet's model on *worker*, from all gateway replicas."""
        state = self._workers.get(worker)
        if state is None:
            return 0
        return state.in_flight - (0 if self._shared_load is None else self._shared_load.beside(self, worker))

    def is_computing(self, booking: Booking) -> bool:
        """Return whether the worker of *booking* is still in the fleet and has not sent a first token yet."""
        worker = self._current(booking)
        return worker is not None and booking.first_byte_at is None and booking in worker.pending

    def first_byte_in_s(self, booking: Booking, now: float) -> float | None:
        """Return the seconds until the predicted first byte of *booking*, or 0 if this time has passed.

        The result is None if the answer does not stream, or if the fleet has not measured its speed yet.
        """
        if not booking.request.streams or not self._rates.are_learned:
            return None
        return max(0.0, booking.booked_at + booking.wait_s + booking.work_s - now)

    def book(self, request: Request, candidate: Candidate, now: float) -> Booking | None:
        """Assign *request* to the candidate worker. From now on, it counts as load and its blocks count as cached.

        Returns None if the worker has left the fleet, or is no longer ready.
        """
        worker = self._workers.get(candidate.worker)
        if worker is None or not worker.is_ready:
            return None
        uncached = max(1.0, request.prompt_tokens - candidate.hit_tokens)
        is_remote = candidate.remote_tokens > 0.0
        pulled = 0.0 if candidate.pull is None else candidate.pull.tokens
        self._sessions.sent(request, worker.id, uncached + pulled)
        booking = Booking(
            worker.id,
            request,
            self._caches.record_prompt(worker.id, request, now),
            1.0 if is_remote else uncached,
            worker.prefill_s(_usual_uncached(request, candidate, worker)) + candidate.load_s,
            now,
            plain_tokens=candidate.plain_tokens,
            reported_tokens=candidate.reported_tokens,
            source=candidate.source,
            is_remote=is_remote,
            loads=NO_LOADS if is_remote else candidate.loads,
            pull=None if is_remote else candidate.pull,
        )
        worker.book(booking, now)
        if self._observer is not None:
            self._observer.booked(booking)
        if self._shared_load is not None:
            self._shared_load.booked(self, booking, now)
        return booking

    def first_byte(self, booking: Booking, now: float) -> None:
        """Record the first byte of a streamed answer. For other answers, only the release is recorded."""
        worker = self._workers.get(booking.worker)
        if worker is not None and booking.request.streams:
            was_pending = worker.first_byte(booking, now)
            self._caches.expect_report(worker.id, booking.request, now)
            if was_pending and self._observer is not None:
                self._observer.first_byte(booking)
            if was_pending and self._shared_load is not None:
                self._shared_load.began(booking, now)

    def release(self, booking: Booking, outcome: Outcome, now: float) -> None:
        """End *booking* and learn from *outcome*. Call this method exactly once for every booking."""
        worker = self._current(booking)
        if worker is not None:
            worker.release(booking, now)
        if self._observer is not None:
            self._observer.released(booking, outcome)
        if self._shared_load is not None:
            self._shared_load.ended(booking, now)
        if booking.pull is not None:
            cached_tokens = outcome.cached_tokens if outcome.ending is Ending.ANSWERED else None
            self._pulls.ended(booking.pull, booking.reported_tokens or 0.0, cached_tokens, now)
        if worker is None:
            return  # a worker that left and came back learns nothing from before
        if booking.incarnation == worker.incarnation:
            _report_to(worker.breaker, booking, outcome, now)
        if outcome.ending is Ending.ANSWERED:
            self._learn(worker, booking, outcome, now)
        elif booking.is_uncomputed(failed=outcome.ending is Ending.FAILED):
            self._caches.take_back(booking)

    def report_lost(self, lost: list[Booking], now: float) -> None:
        """Report bookings with expired leases to the observer, because their callers never released them."""
        if self._observer is not None:
            for booking in lost:
                self._observer.released(booking, Outcome(Ending.ABORTED))
        if self._shared_load is not None:
            for booking in lost:
                self._shared_load.ended(booking, now)

    def book_elsewhere(
        self,
        worker: WorkerId,
        prefix: Prefix,
        exact: tuple[Prefix, ...],
        *,
        uncached_tokens: float,
        output_tokens: float,
        streams: bool,
        now: float,
    ) -> Booking | None:
        """Record a request that another gateway replica sent to *worker*. Returns None if this fleet does not have the
        worker.

        *prefix* and *exact* are as in `Request` and use this gateway's hash key. Both are empty if the worker will not
        cache the prompt.
        """
        state = self._workers.get(worker)
        if state is None:
            return None
        request = Request(
            prefix, 0, uncached_tokens, output_tokens, streams=streams, writes_cache=prefix.blocks > 0, exact=exact
        )
        new_blocks = self._caches.record_prompt(worker, request, now)
        booking = Booking(
            worker, request, new_blocks, uncached_tokens, state.prefill_s(uncached_tokens), now, is_elsewhere=True
        )
        state.book_elsewhere(booking, now)
        if self._shared_load is not None:
            self._shared_load.booked(self, booking, now)
        return booking

    def book_beside(self, booking: Booking, now: float) -> Booking | None:
        """Record another fleet's booking on a shared worker. Returns None if this fleet does not have the worker."""
        state = self._workers.get(booking.worker)
        if state is None:
            return None
        tokens, theirs = booking.uncached_tokens, booking.request
        request = Request(
            Prefix(b""), 0, tokens, theirs.output_tokens, streams=theirs.streams, reads_cache=False, writes_cache=False
        )
        work_s, is_remote = state.prefill_s(tokens), booking.is_remote
        copy = Booking(state.id, request, 0, tokens, work_s, now, is_elsewhere=True, is_remote=is_remote)
        state.book_elsewhere(copy, now)
        return copy

    def first_byte_elsewhere(self, booking: Booking, now: float) -> None:
        """Record the first byte of a booking made by `book_elsewhere` or `book_beside`."""
        if self._shared_load is not None:
            self._shared_load.began(booking, now)
        worker = self._current(booking)
        if worker is not None:
            worker.first_byte_elsewhere(booking, now)
            self._caches.expect_report(worker.id, booking.request, now)

    def release_elsewhere(self, booking: Booking, *, keep: bool, now: float, completion_tokens: int = 0) -> None:
        """End a booking made by `book_elsewhere` or `book_beside`. A second call for the same booking has no effect.

        If *keep* is true, the worker's cache now holds the prompt and an answer of *completion_tokens* tokens.
        """
        if self._shared_load is not None:
            self._shared_load.ended(booking, now)
        worker = self._current(booking)
        if worker is None:
            return
        worker.release(booking, now)
        if keep:
            self._caches.record_answer(worker.id, booking.request, self._caches.answer_blocks(completion_tokens))
        else:
            self._caches.take_back(booking)

    def _current(self, booking: Booking) -> Worker | None:
        """Return the worker of *booking*, or None if the worker left the fleet since then, even if it rejoined."""
        worker = self._workers.get(booking.worker)
        return None if worker is None or booking.booked_at < worker.joined_at else worker

    def _learn(self, worker: Worker, booking: Booking, outcome: Outcome, now: float) -> None:
        worker.warmup.succeeded()
        request = booking.request
        answer_blocks = 0
        if outcome.completion_tokens:
            self._output_length.learn(outcome.completion_tokens)
            answer_blocks = self._caches.answer_blocks(outcome.completion_tokens)
        uncached = booking.uncached_tokens
        if outcome.prompt_tokens is not None:
            if request.writes_cache:
                self._bytes_per_token.learn(request.prompt_bytes, outcome.prompt_tokens)
            if outcome.cached_tokens is not None:
                uncached = max(1.0, float(outcome.prompt_tokens - outcome.cached_tokens))
                # An engine does not report which part of its hit it has pulled.
                is_own = not booking.is_remote and booking.pull is None
                shows_hit = request.reads_cache and request.writes_cache and is_own
                if shows_hit and worker.hit_accuracy.learn(booking, float(outcome.cached_tokens)):
                    self._caches.clear(worker.id)
        # Otherwise the computed share, or the loaded one, is unknown.
        if (request.writes_cache or outcome.cached_tokens is not None) and _loaded_as_predicted(booking, outcome):
            worker.learn(booking, now, uncached_tokens=uncached, completion_tokens=outcome.completion_tokens)
            if request.priority != BATCH:
                self._sessions.answered(uncached + (outcome.completion_tokens or 0))
        self._caches.record_answer(worker.id, request, answer_blocks)


def _loaded_as_predicted(booking: Booking, outcome: Outcome) -> bool:
    """Return False if blocks had to be loaded and the engine's cache hit was not as predicted, otherwise True."""
    if booking.loads.total <= 0.0 or outcome.cached_tokens is None or booking.reported_tokens is None:
        return True
    expected = booking.reported_tokens + booking.loads.peer
    return abs(outcome.cached_tokens - expected) <= HIT_TOLERANCE * expected


def _usual_uncached(request: Request, candidate: Candidate, worker: Worker) -> float:
    """Return the uncached tokens of *request* on *worker* if the prediction of its cache hit has its usual outcome."""
    hit_tokens = candidate.hit_tokens
    if worker.hit_accuracy.of(candidate.source).is_usually_right and candidate.remote_tokens <= 0.0:
        pulled = 0.0 if candidate.pull is None else candidate.pull.tokens
        hit_tokens = max(hit_tokens, candidate.plain_tokens + pulled)
    return max(1.0, request.prompt_tokens - hit_tokens)


def _report_to(breaker: Breaker, booking: Booking, outcome: Outcome, now: float) -> None:
    if outcome.ending is Ending.ANSWERED:
        breaker.succeeded(now, sent_at=booking.booked_at)
    elif outcome.ending is Ending.FAILED:
        breaker.failed(now, sent_at=booking.booked_at)
    else:
        breaker.showed_nothing(sent_at=booking.booked_at)
