"""Hold the worker slot and the open reply of a request while a backend answers it."""

from collections.abc import Callable, Sequence

from gateway.models.model import Model
from gateway.proxy.attempt import Attempt
from gateway.proxy.continuation.continuation import Continuation
from gateway.proxy.exchange import Exchange
from routing.booking import Booking, Ending, Outcome
from routing.candidate import Candidate
from routing.explanation import predicted_ttft_s
from routing.request import Request


class CurrentAttempt:
    """Holder of at most one slot on a worker and one open reply, until `give_back` is called."""

    def __init__(
        self, model: Model, exchange: Exchange, continuation: Continuation | None, *, clock: Callable[[], float]
    ) -> None:
        self._model = model
        self._exchange = exchange
        self._clock = clock
        self.continuation = continuation
        """State from which another worker can continue a broken stream, or None if no worker can continue it."""
        self.booking: Booking | None = None
        """Reserved slot on a worker, or None. The dispatch queue reserves the first slot of each request."""
        self.answer: Attempt | None = None
        """Answer whose reply is open, or None."""

    def reserve(self, request: Request, candidate: Candidate) -> bool:
        """Reserve a slot on the worker *candidate* unless the request already has a slot there. Return False if the
        worker accepts no requests.
        """
        exchange = self._exchange
        if self.booking is None or self.booking.worker != candidate.worker:
            self.booking = self._model.fleet.bookings.book(request, candidate, self._clock())
        if self.booking is None or candidate.worker not in self._model.latest.workers:
            return False
        exchange.backend = candidate.worker
        exchange.served_by = "worker"
        exchange.hit_blocks = candidate.hit_blocks
        exchange.hit_tokens = candidate.hit_tokens
        exchange.hit_source = candidate.source
        return True

    def move(self, request: Request, candidate: Candidate) -> None:
        """Replace the slot by one on the worker *candidate*, which answers the request instead of the chosen worker."""
        booking, self.booking = self.booking, None
        if booking is not None:
            self.release(booking, Ending.ABORTED)
        self.reserve(request, candidate)

    def predict(self, request: Request, order: Sequence[Candidate], candidate: Candidate) -> None:
        """Record the predicted time to first token on *candidate*, and how much longer it is than on the best worker in
        *order*.
        """
        exchange, booking = self._exchange, self.booking
        if booking is None or exchange.first_byte is not None:
            return
        own_s = predicted_ttft_s(request, candidate)
        best_s = own_s
        for other in order:
            other_s = predicted_ttft_s(request, other)
            best_s = min(best_s, other_s)
        exchange.predicted_ttft_s = booking.booked_at - exchange.started + own_s
        exchange.regret_s = own_s - best_s

    async def give_back(self, ending: Ending) -> None:
        """Close the open reply and release the slot with the outcome *ending*. If there is neither, do nothing."""
        answer, self.answer = self.answer, None
        booking, self.booking = self.booking, None
        if self._exchange.trace is not None:
            self._exchange.trace.end_attempt(ending)
        try:
            if answer is not None:
                if booking is not None and self.continuation is not None:
                    self._model.streams.closed(booking.worker, answer.reply)
                await answer.reply.aclose()
        finally:
            if booking is not None:
                self.release(booking, ending)

    def release(self, booking: Booking, ending: Ending) -> None:
        """Release the slot *booking*, report its outcome to the fleet, and dispatch the next request in the queue."""
        usage = self._exchange.usage if ending is Ending.ANSWERED else None
        outcome = Outcome(ending)
        if usage is not None:
            # The cached tokens of a continued answer are those of the worker that began it.
            is_spliced = self.continuation is not None and self.continuation.is_spliced
            cached_tokens = None if is_spliced else usage.cached_tokens
            outcome = Outcome(ending, usage.prompt_tokens, cached_tokens, usage.completion_tokens)
        self._model.fleet.bookings.release(booking, outcome, self._clock())
        self._model.dispatch_queue.turn()
