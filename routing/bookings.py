"""The bookings of one fleet: what its workers have been given to do, and what each outcome teaches."""

from collections.abc import Mapping

from cache_index import Prefix, WorkerId
from routing.booking import Booking, Ending, Outcome
from routing.booking_observer import BookingObserver
from routing.breaker import Breaker
from routing.cache_view import CacheView
from routing.candidate import Candidate
from routing.learning.estimates import BytesPerToken, OutputLength
from routing.learning.rates import Rates
from routing.request import Request
from routing.shared_worker_load import SharedWorkerLoad
from routing.worker import Worker


class Bookings:
    """Books requests on *workers* and releases them.

    *observer* is notified of every booking made by `book`. Bookings of other gateways come in by `book_elsewhere`, and
    those of other fleets on a shared worker by `book_beside`: both count as load and teach nothing.
    """

    def __init__(
        self,
        workers: Mapping[WorkerId, Worker],
        caches: CacheView,
        *,
        rates: Rates,
        bytes_per_token: BytesPerToken,
        output_length: OutputLength,
        observer: BookingObserver | None,
    ) -> None:
        self._workers = workers
        self._caches = caches
        self._rates = rates
        self._bytes_per_token = bytes_per_token
        self._output_length = output_length
        self._observer = observer
        self._shared_load: SharedWorkerLoad | None = None

    def set_shared_load(self, shared_load: SharedWorkerLoad | None) -> None:
        """Set who passes bookings on to other fleets with the same workers. None: there are no such fleets."""
        self._shared_load = shared_load

    def own_in_flight(self, worker: WorkerId) -> int:
        """Return the requests of this model on *worker*, from all gateways. Those of other models do not count."""
        state = self._workers.get(worker)
        if state is None:
            return 0
        return state.in_flight - (0 if self._shared_load is None else self._shared_load.beside(self, worker))

    def first_byte_in_s(self, booking: Booking, now: float) -> float | None:
        """Return the seconds until the predicted first byte of *booking*: 0 if it is overdue.

        None if there is no prediction: the answer does not stream, or the fleet has not measured its speed yet.
        """
        if not booking.request.streams or not self._rates.are_learned:
            return None
        return max(0.0, booking.booked_at + booking.wait_s + booking.work_s - now)

    def book(self, request: Request, candidate: Candidate, now: float) -> Booking | None:
        """Give *request* to the candidate: from this moment it counts as load, and its blocks as present.

        None if the worker has left, or has stopped being ready since it was ranked.
        """
        worker = self._workers.get(candidate.worker)
        if worker is None or not worker.is_ready:
            return None
        uncached = max(1.0, request.prompt_tokens - candidate.hit_tokens)
        is_remote = candidate.remote_tokens > 0.0
        booking = Booking(
            worker.id,
            request,
            self._caches.record_prompt(worker.id, request, now),
            1.0 if is_remote else uncached,
            worker.prefill_s(uncached) + candidate.load_s,
            now,
            plain_tokens=candidate.plain_tokens,
            reported_tokens=candidate.reported_tokens,
            source=candidate.source,
            is_remote=is_remote,
        )
        worker.book(booking, now)
        if self._observer is not None:
            self._observer.booked(booking)
        if self._shared_load is not None:
            self._shared_load.booked(self, booking, now)
        return booking

    def first_byte(self, booking: Booking, now: float) -> None:
        """Note the first byte of a stream. Other answers report nothing before their release."""
        worker = self._workers.get(booking.worker)
        if worker is not None and booking.request.streams:
            was_pending = worker.first_byte(booking, now)
            self._caches.expect_report(worker.id, booking.request, now)
            if was_pending and self._observer is not None:
                self._observer.first_byte(booking)
            if was_pending and self._shared_load is not None:
                self._shared_load.began(booking, now)

    def release(self, booking: Booking, outcome: Outcome, now: float) -> None:
        """End *booking* and learn from *outcome*. Must be called exactly once for every booking."""
        worker = self._current(booking)
        if worker is not None:
            worker.release(booking, now)
        if self._observer is not None:
            self._observer.released(booking, outcome)
        if self._shared_load is not None:
            self._shared_load.ended(booking, now)
        if worker is None:
            return  # a worker that left and came back learns nothing from before
        if booking.incarnation == worker.incarnation:
            _report_to(worker.breaker, booking, outcome, now)
        if outcome.ending is Ending.ANSWERED:
            self._learn(worker, booking, outcome, now)
        elif booking.is_uncomputed(failed=outcome.ending is Ending.FAILED):
            self._caches.take_back(booking)

    def report_lost(self, lost: list[Booking], now: float) -> None:
        """Report the release of bookings whose lease has ended: their callers never released them."""
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
        """Note a request that another gateway gave to *worker*. None if the worker is absent.

        *prefix* and *exact* are as in `Request`, hashed with the same key as here; without blocks where the worker
        will not hold them afterwards.
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
        """Note a booking that another fleet made on a shared worker. None if the worker is absent here."""
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
        """Note the first byte of a booking made by `book_elsewhere` or `book_beside`."""
        if self._shared_load is not None:
            self._shared_load.began(booking, now)
        worker = self._current(booking)
        if worker is not None:
            worker.first_byte_elsewhere(booking, now)
            self._caches.expect_report(worker.id, booking.request, now)

    def release_elsewhere(self, booking: Booking, *, keep: bool, now: float, completion_tokens: int = 0) -> None:
        """End a booking made by `book_elsewhere` or `book_beside`. A second call changes nothing.

        *keep*: its prompt is in the worker's cache, with an answer of *completion_tokens* behind it.
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
        """The worker of *booking*. None if it has left, even if it joined again later."""
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
                shows_hit = request.reads_cache and request.writes_cache and not booking.is_remote
                if shows_hit and worker.hit_accuracy.learn(booking, float(outcome.cached_tokens)):
                    self._caches.clear(worker.id)
        if request.writes_cache or outcome.cached_tokens is not None:  # otherwise the computed share is unknown
            worker.learn(booking, now, uncached_tokens=uncached, completion_tokens=outcome.completion_tokens)
        self._caches.record_answer(worker.id, request, answer_blocks)


def _report_to(breaker: Breaker, booking: Booking, outcome: Outcome, now: float) -> None:
    if outcome.ending is Ending.ANSWERED:
        breaker.succeeded(now, sent_at=booking.booked_at)
    elif outcome.ending is Ending.FAILED:
        breaker.failed(now, sent_at=booking.booked_at)
    else:
        breaker.showed_nothing(sent_at=booking.booked_at)
