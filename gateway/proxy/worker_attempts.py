"""Send a request to workers. First, the request waits in the queue. Then, it tries the candidates in the order of the
dispatch.
"""

from collections.abc import Callable, Sequence

from cache_index import WorkerId
from gateway.backends.backend import Backend, Call, WorkerBackend
from gateway.models.model import Model
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.errors import (
    AdapterMissing,
    ConnectFailed,
    GatewayError,
    HandedOver,
    NoWorker,
    PrefillFailed,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
)
from gateway.protocol.sse import StreamObserver
from gateway.proxy.adapter_attempt import AdapterAttempt
from gateway.proxy.attempt import OVERLOADED, RETRY_AFTER_S, Attempt, ask
from gateway.proxy.continuation.continuation import Continuation
from gateway.proxy.current_attempt import CurrentAttempt
from gateway.proxy.decision import Decision
from gateway.proxy.exchange import Exchange
from gateway.proxy.kv_transfer.kv_transfer import kv_transfer_for
from gateway.proxy.kv_transfer.pulls import pulling
from gateway.proxy.prefill_decode_attempt import PrefillDecodeAttempt
from gateway.proxy.retry_policy import RetryPolicy
from gateway.proxy.retry_state import RetryState
from routing.booking import Booking, Ending
from routing.candidate import Candidate
from routing.dispatcher import Dispatch
from routing.request import Request
from routing.strategies.prefix_aware import cost_s


class WorkerAttempts:
    """Attempts at the workers of *model*, one after another. A worker that failed is not retried until it restarts."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: Model,
        request: Request,
        exchange: Exchange,
        *,
        strip_usage: bool,
        continuation: Continuation | None,
        retry_policy: RetryPolicy,
        may_cut_wait_short: bool,
        clock: Callable[[], float],
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._request = request
        self._exchange = exchange
        self._strip_usage = strip_usage
        self._retry_policy = retry_policy
        self._clock = clock
        self._failure: UpstreamError | None = None  # of the last worker
        self._others: Sequence[Candidate] = ()  # candidates after the one that is tried
        self.current = current = CurrentAttempt(model, exchange, continuation, clock=clock)
        self.retry_state = RetryState(model, exchange, retry_policy, may_cut_wait_short=may_cut_wait_short, clock=clock)
        self._adapter: AdapterAttempt | None = None
        if model.adapter is not None:
            self._adapter = AdapterAttempt(model.adapter, model, exchange, current)
        self._prefill_decode: PrefillDecodeAttempt | None = None
        if model.prefill_decode is not None and request.divides:
            transfer = kv_transfer_for(
                model, model.prefill_decode, request, endpoint, exchange, retry_policy=retry_policy, clock=clock
            )
            self._prefill_decode = PrefillDecodeAttempt(transfer, endpoint, exchange, current, strip_usage=strip_usage)

    def never_spill(self) -> None:
        """Let the request wait for workers, whatever the predicted wait is, because no fallback accepts it."""
        self._request = self._request.changed(spill_in_s=None)

    async def first_answer(self, call: Call, *, skips_queue: bool = False) -> Attempt:
        """Return the first answer of a worker. For a stream that has already begun, *skips_queue* is true, and the
        dispatch is immediate.

        Raises:
            UpstreamRefused: if every candidate failed, and the last one returned an error status.
            QueueFull: if the queue is full, or the wait would be longer than allowed.
            NoWorker: if no worker can be reached.
            WaitsTooLong: if a fallback would answer sooner.
        """
        dispatch_queue = self._model.dispatch_queue
        try:
            while True:
                self._exchange.enter("queue")
                since = self._clock()
                dispatch = (
                    dispatch_queue.at_once(self._request) if skips_queue else await dispatch_queue.admit(self._request)
                )
                now = self._clock()
                self._exchange.queued_s += now - since
                self._note_dispatch(dispatch, now)
                attempt = await self._first_of(dispatch.order, call, may_always_retry=skips_queue)
                if attempt is None:
                    spare = self._model.fleet.cut_off(self._request, self._clock())
                    attempt = await self._first_of(spare, call, may_always_retry=skips_queue)
                if attempt is not None:
                    return attempt
                if not self.retry_state.forgive_stalled() and not await self._wait_for_worker(
                    may_spill=not skips_queue
                ):
                    raise self._exhausted()
        finally:
            self._failure = None

    async def leave(self, worker: WorkerId, error: UpstreamError) -> None:
        """Close the reply of *worker*, which failed with *error*, and release its slot. Do not retry this worker until
        it restarts.
        """
        if self._exchange.trace is not None:
            self._exchange.trace.failed(error)
        self._exchange.note_failure(worker, error.reason)
        self.retry_state.note_failure(worker, error)
        await self.current.give_back(_ending_of(error))
        if isinstance(error, ConnectFailed) or (isinstance(error, UpstreamTimeout) and error.phase == "connect"):
            self._model.latest.unreachable(worker)

    async def _first_of(self, order: Sequence[Candidate], call: Call, *, may_always_retry: bool) -> Attempt | None:
        """Return the first answer of a worker in *order*, or None if all these workers failed.

        Raises:
            UpstreamRefused, NoWorker: if the request may not be retried any more.
        """
        last = len(order) - 1
        retry_state, current = self.retry_state, self.current
        for place, candidate in enumerate(order):
            if not retry_state.may_ask(candidate.worker) or not current.reserve(self._request, candidate):
                await current.give_back(Ending.ABORTED)
                continue
            if retry_state.has_failures and not await retry_state.may_retry(
                self._request, self._failure, may_always_retry=may_always_retry
            ):
                raise self._exhausted()
            current.predict(self._request, order, candidate)
            if self._exchange.delivery is not None:
                self._others = order[place + 1 :]
                if self._exchange.delivery.wants_costs:
                    self._exchange.delivery.note_costs({each.worker: cost_s(self._request, each) for each in order})
            try:
                if self._adapter is not None:
                    return await self._adapter.answer(self._request, candidate, call, place == last, self._ask)
                return await self._ask(candidate, call, place == last)
            except UpstreamError as error:
                failure = self._failure = error.with_traceback(None)
            await self.leave(candidate.worker if current.booking is None else current.booking.worker, failure)
            if self._exchange.delivery is not None:
                raise self._exhausted()  # it sends a request at most once
        return None

    async def _ask(self, candidate: Candidate, call: Call, is_last: bool) -> Attempt:
        """Send the request to one worker, and wait for the first useful byte. If *is_last* is true, no other worker is
        left to try.
        """
        exchange, current, model = self._exchange, self.current, self._model
        exchange.attempts += 1
        exchange.sent_at = self._clock()
        booking, trace = current.booking, exchange.trace
        first_byte_s = None if is_last or booking is None else self._first_byte_s(booking)
        worker = model.latest.workers[candidate.worker]
        backend: Backend = worker
        if exchange.delivery is not None:
            backend = exchange.delivery.to(worker, self._other_workers(), self._note_served)
        if trace is not None:
            is_continued = exchange.first_byte is not None
            call = trace.attempt(call, worker.id, "worker", worker.url, is_continued=is_continued)
            trace.booked(self._request, candidate, booking)
        if self._prefill_decode is not None:
            attempt = await self._prefill_decode.answer(
                self._request, backend, candidate, call, self._observer, first_byte_s
            )
        else:
            call = pulling(call, model.latest.pulls, candidate.pull)
            attempt = current.answer = await ask(
                backend, call, self._endpoint, self._observer, first_byte_s=first_byte_s
            )
        if trace is not None:
            trace.first_byte(attempt.status)
        if attempt.observer is not None:
            now = self._clock()
            exchange.began(now)
            booking = current.booking  # the worker may compute the prompt itself, or another one may answer
            if booking is not None:
                model.fleet.bookings.first_byte(booking, now)
                model.dispatch_queue.turn()
            if current.continuation is not None:
                self._watch_stream(candidate.worker, attempt)
        return attempt

    def _other_workers(self) -> list[WorkerBackend]:
        """Return the workers that can answer if the worker that is tried fails, in order."""
        workers = self._model.latest.workers
        return [workers[each.worker] for each in self._others if each.worker in workers]

    def _note_served(self, worker: WorkerId) -> None:
        """Move the request's slot to *worker* if the server in front of the gateway has sent the request there, and
        not to the worker that was chosen.
        """
        booking = self.current.booking
        if booking is None or booking.worker == worker:
            return
        found = [each for each in self._others if each.worker == worker]
        if not found:
            pinned = self._request.changed(pinned=worker, allowed=None)
            found = self._model.fleet.candidates(pinned, self._clock())
        if found:
            self.current.move(self._request, found[0])

    def _note_dispatch(self, dispatch: Dispatch, now: float) -> None:
        exchange = self._exchange
        exchange.strategy = dispatch.strategy
        exchange.reason = dispatch.reason
        exchange.prompt_blocks = self._request.prefix.blocks
        self.current.booking = dispatch.booking
        if exchange.keeps_decision and exchange.first_byte is None:
            exchange.decision = Decision(dispatch, self._model.fleet, now)
        if exchange.trace is not None:
            exchange.trace.dispatched(dispatch)

    def _first_byte_s(self, booking: Booking) -> float | None:
        """Return the seconds to wait for a first byte before another worker is tried, or None for only the normal
        timeouts.
        """
        now = self._clock()
        if not booking.request.streams or self._exchange.delivery is not None:
            return None
        if not self._model.retry_budget.has_room(now):
            return None
        predicted_s = self._model.fleet.bookings.first_byte_in_s(booking, now)
        return None if predicted_s is None else self._retry_policy.first_byte_s(predicted_s)

    def _observer(self) -> StreamObserver:
        continuation = self.current.continuation
        make = self._endpoint.observer if continuation is None else continuation.observer
        return make(strip_usage=self._strip_usage)

    def _watch_stream(self, worker: WorkerId, attempt: Attempt) -> None:
        """Register the stream, so that another worker can continue it if *worker* is drained or the stream stalls."""
        self._model.streams.opened(worker, attempt.reply)
        if not any(other.is_answering for other in self._model.fleet if other.id != worker):
            return
        pause_s = self._retry_policy.max_pause_s(self._model.fleet.usual_gap_s(worker))
        if pause_s is not None:
            attempt.reply.expect_within(pause_s)

    async def _wait_for_worker(self, *, may_spill: bool) -> bool:
        """Wait for a worker (see `RetryState.wait_for_worker`). If *may_spill* is true, do not wait longer than a
        fallback would take.
        """
        self._exchange.enter("wait")
        spill_in_s = self._request.spill_in_s if may_spill else None
        return await self.retry_state.wait_for_worker(self._request, spill_in_s=spill_in_s)

    def _exhausted(self) -> GatewayError:
        """Return the error for a caller whose request none of the workers has answered."""
        failure = self._failure
        if isinstance(failure, UpstreamRefused):
            return failure
        why = failure or self._model.why_no_worker() or "no untried worker was left"
        return NoWorker(f"No worker of model {self._model.name!r} answered: {why}", retry_after_s=RETRY_AFTER_S)


def _ending_of(error: UpstreamError) -> Ending:
    """Return the outcome of the slot on a worker that failed with *error*.

    An overload, a drain, a missing adapter, and a failed prefill on another worker do not count against the worker's
    health.
    """
    if isinstance(error, HandedOver | PrefillFailed | AdapterMissing):
        return Ending.ABORTED
    return Ending.REFUSED if isinstance(error, UpstreamRefused) and error.status == OVERLOADED else Ending.FAILED
