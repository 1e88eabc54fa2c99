"""Trying whoever can answer until one begins to, and going on elsewhere where that one dies.

1. Candidates in their order; one that failed is not asked again before it has begun another life.
2. If all have failed, or none is there: a short wait for a worker.
3. Then the fallbacks, in their order. A request that is too long for the workers, or would wait too long for them, goes
   there first.
4. Where a stream can go on, another worker takes it up with what is left of it.
"""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from cache_index import WorkerId
from gateway.adapters.placement import Placement
from gateway.attempt import CLIENT_ERRORS, OVERLOADED, RETRY_AFTER_S, Attempt, ask, refused_status
from gateway.backends.backend import Call, WorkerBackend
from gateway.cascade.need import Need
from gateway.continuation.continuation import MAX_HELD, Continuation
from gateway.disaggregation.hop import Hop, hop_of
from gateway.disaggregation.transferred import MAX_HELD as FETCHED_MAX_HELD
from gateway.endpoints.endpoint import Endpoint
from gateway.errors import (
    AdapterMissing,
    ClientError,
    ConnectFailed,
    GatewayError,
    HandedOver,
    NoWorker,
    PrefillFailed,
    PromptTooLong,
    QueueFull,
    ReplyBroken,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
    WaitsTooLong,
)
from gateway.exchange import Exchange
from gateway.fallback_attempts import FallbackAttempts
from gateway.model import Model
from gateway.persistence import Persistence
from gateway.retries import Retries
from gateway.sse import Tail
from gateway.usage import Usage
from routing.booking import Booking, Ending, Outcome
from routing.candidate import Candidate
from routing.disaggregation import plain
from routing.dispatcher import Dispatch
from routing.explanation import predicted_ttft_s
from routing.request import Request

WORKER_BACK_S = 60.0
"""Within which a worker that is away may be back: nobody is sent away for longer."""


class Attempts:
    """The attempts of one request: one reply and one booking at a time, both given back in the end."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: Model,
        request: Request,
        call: Call,
        exchange: Exchange,
        *,
        strip_usage: bool,
        continuation: Continuation | None = None,
        plain_call: Call | None = None,
        need: Need | None = None,
        persistence: Persistence = Persistence(),  # noqa: B008  # frozen
        clock: Callable[[], float],
    ) -> None:
        """*call* is that of *continuation*, if there is one; *plain_call* is the same without what that asks for.

        *need* is what the request asks of fallbacks; None: it may not go there.
        """
        self._endpoint = endpoint
        self._model = model
        self._request = request
        self._call: Call | None = call
        self._strip_usage = strip_usage
        self.continuation = continuation
        self._need = need
        self._fallbacks: FallbackAttempts | None = None
        if need is not None and model.cascade:
            plain_call = call if plain_call is None else plain_call
            self._fallbacks = FallbackAttempts(
                endpoint, model.cascade, plain_call, need, exchange, strip_usage=strip_usage, clock=clock
            )
        self._persistence = persistence
        self._hop: Hop | None = None
        if model.division is not None and request.divides:
            self._hop = hop_of(model, model.division, request, endpoint, exchange, persistence=persistence, clock=clock)
        self.exchange = exchange
        self._clock = clock
        self._retries = Retries(model, exchange, persistence, may_hurry=self._fallbacks is not None, clock=clock)
        self._booking: Booking | None = None
        self._attempt: Attempt | None = None
        self._ending = Ending.ABORTED
        self._error: UpstreamError | None = None
        self._usage: Usage | None = None  # of an answer that came whole
        self._failure: UpstreamError | None = None  # of the worker that was asked last

    async def first_answer(self) -> Attempt:
        """The first answer that is none of a backend's failures; it may say that the caller is wrong.

        To be called once: the call is forgotten, because a stream may outlive the need for a long prompt by minutes.

        Raises:
            UpstreamRefused: every candidate failed, the last with an error status of its own.
            QueueFull: the wait for a worker cannot fit.
            NoWorker: nobody is there.
        """
        call, self._call = self._call, None
        assert call is not None, "it was asked already"
        now = self._clock()
        self._model.retry_budget.note(now)
        self._model.cascade.note_request(now)
        if self._fallbacks is None:
            return await self._of_workers(call)
        try:
            return await self._first_answer(call, self._fallbacks)
        finally:
            self._fallbacks.forget_call()

    async def _first_answer(self, call: Call, fallbacks: FallbackAttempts) -> Attempt:
        """Of workers and *fallbacks*, whoever should be asked first."""
        if self._is_too_long():
            attempt, _ = await self._of_fallbacks(fallbacks)
            if attempt is not None:
                return attempt
        try:
            return await self._in_time(call, fallbacks)
        except (UpstreamError, NoWorker, QueueFull) as error:
            failure: GatewayError | None = error.with_traceback(None)
        try:
            attempt, cause = await self._of_fallbacks(fallbacks, failure)
            if attempt is not None:
                return attempt
            try:
                if self._retries.has_hurried:
                    return await self._at_leisure(call)
            except (UpstreamError, NoWorker, QueueFull) as error:
                failure = error.with_traceback(None)
            assert failure is not None
            if isinstance(cause, PromptTooLong) and fallbacks.retry_in_s is None and not self._model.has_fleet:
                raise cause
            raise _unhelped(failure, cause, self._wait_s(fallbacks)) from cause
        finally:
            # An error with a traceback holds the frames it went through, and so the call. Where a frame, or a
            # connection that failed, holds the error as well, only the cycle collector would free them.
            failure = cause = None

    async def _in_time(self, call: Call, fallbacks: FallbackAttempts) -> Attempt:
        """As `_of_workers`, or that of a fallback if it is earlier. Where none helps the workers are waited for."""
        with suppress(WaitsTooLong):
            return await self._of_workers(call)
        attempt, _ = await self._of_fallbacks(fallbacks)
        if attempt is not None:
            return attempt
        self._request = self._request.changed(spill_in_s=None)
        return await self._of_workers(call)

    async def _at_leisure(self, call: Call) -> Attempt:
        """As `_of_workers`, for a request that has not waited because a fallback might help, and none did."""
        self._retries.take_time()
        self._request = self._request.changed(spill_in_s=None)
        return await self._of_workers(call)

    async def go_on(self, error: UpstreamError) -> Attempt:
        """The stream that *error* broke, as another worker goes on with it.

        Raises:
            UpstreamError: *error*, if none can.
            NoWorker: nobody is there, nor did anybody come.
        """
        continuation = self.continuation
        call = None if continuation is None or self._booking is None else continuation.next_call()
        if call is None or continuation is None or self._booking is None:
            raise error
        tail = None if self._attempt is None else self._attempt.tail
        exchange = self.exchange
        is_predicted = exchange.hit_source is not None and exchange.prompt_tokens > 0.0
        hit_share = exchange.hit_tokens / exchange.prompt_tokens if is_predicted else None
        self._retries.begin_another_wait()
        await self._has_failed(self._booking.worker, error)
        try:
            attempt = await self._of_workers(call, at_once=True)
        except UpstreamError as failure:
            raise error from failure.with_traceback(None)
        if attempt.tail is None:
            raise error  # it refuses what the former took
        continuation.resumed(hit_share=hit_share)
        exchange.continued += 1
        exchange.streamed_events += 0 if tail is None else tail.events
        return attempt

    def note_prompt(self, attempt: Attempt) -> None:
        """An answer came whole: no more of its prompt was cached than there is, as its engine has counted it."""
        if attempt.status not in CLIENT_ERRORS:
            usage = self._usage = self._endpoint.usage_of(attempt.first)
            if usage is not None and usage.prompt_tokens < self.exchange.hit_tokens:
                self.exchange.hit_tokens = float(usage.prompt_tokens)

    def answered(self, attempt: Attempt) -> None:
        """The answer has been passed on completely."""
        tail, exchange = attempt.tail, self.exchange
        if attempt.status in CLIENT_ERRORS or (tail is not None and refused_status(tail) is not None):
            self._ending = Ending.REFUSED
            exchange.error = "Refused"
            return
        if tail is not None and (tail.failed is not None or tail.aborted):
            self._ending = Ending.FAILED
            exchange.error = ReplyBroken.__name__
            return
        self._ending = Ending.ANSWERED
        exchange.usage = (self._usage or self._endpoint.usage_of(attempt.first)) if tail is None else tail.usage
        if self.continuation is not None:
            exchange.usage = self.continuation.usage(exchange.usage)

    def completed(self) -> None:
        """All that mattered of a stream was there when its worker failed."""
        self._ending = Ending.FAILED
        if self.continuation is not None:
            self.exchange.usage = self.continuation.usage(None)

    def broken(self, error: UpstreamError) -> None:
        """The backend failed after its first byte."""
        self._ending = Ending.FAILED
        self._error = error.with_traceback(None)
        if self.exchange.trace is not None:
            self.exchange.trace.failed(error)
        if self.continuation is not None:
            self.exchange.usage = self.continuation.usage(None)

    async def aclose(self) -> None:
        """Close the reply and release the booking, telling how it ended: aborted, unless something else was said."""
        try:
            await self._give_up(self._ending)
        finally:
            if self._fallbacks is not None:
                self._fallbacks.settle(self._ending, self._error)

    # ---- workers

    async def _of_workers(self, call: Call, *, at_once: bool = False) -> Attempt:
        """The first answer of a worker. *at_once* does not queue, for a stream that has begun.

        Raises:
            UpstreamRefused, NoWorker, QueueFull: as `first_answer`. WaitsTooLong: it had better go to a fallback.
        """
        turnstile = self._model.turnstile
        try:
            while True:
                self.exchange.enter("queue")
                since = self._clock()
                dispatch = turnstile.at_once(self._request) if at_once else await turnstile.admit(self._request)
                self.exchange.queued_s += self._clock() - since
                self._dispatched(dispatch)
                attempt = await self._first_of(dispatch.order, call, at_once=at_once)
                if attempt is None:
                    spare = self._model.fleet.cut_off(self._request, self._clock())
                    attempt = await self._first_of(spare, call, at_once=at_once)
                if attempt is not None:
                    return attempt
                if not self._retries.forgive() and not await self._somebody_comes(may_spill=not at_once):
                    raise self._exhausted()
        finally:
            self._failure = None

    async def _first_of(self, order: Sequence[Candidate], call: Call, *, at_once: bool) -> Attempt | None:
        """The first answer of *order*; None if all of it failed.

        Raises:
            UpstreamRefused, NoWorker: it may not be tried any more.
        """
        last = len(order) - 1
        for place, candidate in enumerate(order):
            if not self._retries.has_not_failed(candidate.worker) or not self._book(candidate):
                await self._give_up(Ending.ABORTED)
                continue
            if self._retries.has_begun and not await self._retries.may_try_again(
                self._request, self._failure, at_once=at_once
            ):
                raise self._exhausted()
            self._predict(order, candidate)
            try:
                if self._model.adapter is not None:
                    return await self._ask_adapted(self._model.adapter, candidate, call, is_last=place == last)
                return await self._ask(candidate, call, is_last=place == last)
            except UpstreamError as error:
                failure = self._failure = error.with_traceback(None)
            await self._has_failed(candidate.worker, failure)
        return None

    def _dispatched(self, dispatch: Dispatch) -> None:
        exchange = self.exchange
        exchange.strategy = dispatch.strategy
        exchange.reason = dispatch.reason
        exchange.prompt_blocks = self._request.prefix.blocks
        self._booking = dispatch.booking
        if exchange.trace is not None:
            exchange.trace.dispatched(dispatch)

    def _book(self, candidate: Candidate) -> bool:
        """Whether the request has a place on *candidate*; on the first it was booked at dispatch."""
        exchange = self.exchange
        if self._booking is None or self._booking.worker != candidate.worker:
            self._booking = self._model.fleet.book(self._request, candidate, self._clock())
        if self._booking is None or candidate.worker not in self._model.latest.workers:
            return False
        exchange.backend = candidate.worker
        exchange.served_by = "worker"
        exchange.hit_blocks = candidate.hit_blocks
        exchange.hit_tokens = candidate.hit_tokens
        exchange.hit_source = candidate.source
        return True

    def _predict(self, order: Sequence[Candidate], candidate: Candidate) -> None:
        """Note when *candidate*, one of *order*, should begin to answer, and how much earlier the best one would."""
        exchange, booking = self.exchange, self._booking
        if booking is None or exchange.first_byte is not None:
            return
        own_s = predicted_ttft_s(self._request, candidate)
        best_s = own_s
        for other in order:
            other_s = predicted_ttft_s(self._request, other)
            best_s = min(best_s, other_s)
        exchange.predicted_ttft_s = booking.booked_at - exchange.started + own_s
        exchange.regret_s = own_s - best_s

    async def _ask(self, candidate: Candidate, call: Call, *, is_last: bool) -> Attempt:
        """One worker, up to the first useful byte."""
        self.exchange.attempts += 1
        self.exchange.sent_at = self._clock()
        model, booking, trace = self._model, self._booking, self.exchange.trace
        first_byte_s = None if is_last or booking is None else self._first_byte_s(booking)
        backend = model.latest.workers[candidate.worker]
        if trace is not None:
            is_continued = self.exchange.first_byte is not None
            call = trace.attempt(call, backend.id, "worker", backend.url, is_continued=is_continued)
            trace.booked(self._request, candidate, booking)
        if self._hop is not None:
            attempt = await self._divided(self._hop, candidate, call, first_byte_s)
            booking = self._booking
        else:
            attempt = self._attempt = await ask(backend, call, self._endpoint, self._tail, first_byte_s=first_byte_s)
        if trace is not None:
            trace.first_byte(attempt.status)
        if attempt.tail is not None:
            now = self._clock()
            self.exchange.began(now)
            if booking is not None:
                model.fleet.first_byte(booking, now)
                model.turnstile.turn()
            if self.continuation is not None:
                self._open(candidate.worker, attempt)
        return attempt

    async def _ask_adapted(self, adapter: Placement, candidate: Candidate, call: Call, *, is_last: bool) -> Attempt:
        """As `_ask`, of a worker that may have to load the model's adapter first.

        Raises:
            AdapterMissing: it does not have it, and will not.
        """
        backend = self._model.latest.workers[candidate.worker]
        if not adapter.is_there(backend):
            await self._bring(adapter, backend, candidate, waits=is_last)
        attempt = await self._ask(candidate, call, is_last=is_last)
        if attempt.tail is not None or not adapter.is_refused(backend, attempt.status, attempt.first):
            return attempt
        await self._bring(adapter, backend, candidate, waits=is_last)
        attempt = await self._ask(candidate, call, is_last=is_last)
        if attempt.tail is None and adapter.is_refused(backend, attempt.status, attempt.first):
            raise AdapterMissing(f"{candidate.worker} does not have the adapter that it has loaded")
        return attempt

    async def _bring(self, adapter: Placement, backend: WorkerBackend, candidate: Candidate, *, waits: bool) -> None:
        """Let *candidate* load the adapter. The time that takes is none of a prefill, so it is booked anew."""
        self.exchange.enter("adapter")
        await adapter.bring(backend, waits=waits)
        await self._give_up(Ending.ABORTED)
        if not self._book(candidate):
            raise AdapterMissing(f"{candidate.worker} is to have no more requests")

    async def _divided(self, hop: Hop, candidate: Candidate, call: Call, first_byte_s: float | None) -> Attempt:
        """As `ask`, with a prompt that another worker computes if *candidate* is to fetch it."""
        backend = self._model.latest.workers[candidate.worker]

        def asked(sent: Call, is_remote: bool) -> Coroutine[Any, Any, Attempt]:
            if is_remote:
                return ask(backend, sent, self._endpoint, self._fetching_tail)
            self._compute_here(candidate)
            return ask(backend, sent, self._endpoint, self._tail, first_byte_s=first_byte_s)

        if candidate.remote_tokens > 0.0:
            self._attempt = await hop.answer(candidate, call, asked)
        else:
            self.exchange.prefill = "here"
            self._attempt = await asked(call, False)
        return self._attempt

    def _compute_here(self, candidate: Candidate) -> None:
        """What was to be fetched is computed after all: that is more for *candidate* to do.

        Raises:
            HandedOver: it is to have no more requests.
        """
        booking = self._booking
        if booking is None or not booking.is_remote:
            return
        self._booking = None
        self._release(booking, Ending.ABORTED)
        if not self._book(plain(candidate)):
            raise HandedOver(f"{candidate.worker} is to have no more requests")

    def _first_byte_s(self, booking: Booking) -> float | None:
        """How long to wait where somebody else could be asked; None: as long as the timeouts allow."""
        now = self._clock()
        if not booking.request.streams or not self._model.retry_budget.has_room(now):
            return None
        predicted_s = self._model.fleet.first_byte_in_s(booking, now)
        return None if predicted_s is None else self._persistence.first_byte_s(predicted_s)

    def _tail(self) -> Tail:
        make = self._endpoint.tail if self.continuation is None else self.continuation.tail
        return make(strip_usage=self._strip_usage)

    def _fetching_tail(self) -> Tail:
        assert self._hop is not None, "nothing is fetched"
        max_held = FETCHED_MAX_HELD if self.continuation is None else MAX_HELD
        return self._hop.tail(strip_usage=self._strip_usage, max_held=max_held)

    def _open(self, worker: WorkerId, attempt: Attempt) -> None:
        """A stream that can go on elsewhere may be handed over, and need not wait for a worker that stalls."""
        self._model.streams.opened(worker, attempt.reply)
        if not any(other.is_answering for other in self._model.fleet if other.id != worker):
            return
        pause_s = self._persistence.pause_s(self._model.fleet.usual_gap_s(worker))
        if pause_s is not None:
            attempt.reply.expect_within(pause_s)

    async def _has_failed(self, worker: WorkerId, error: UpstreamError) -> None:
        """Give up what is held there, and leave *worker* alone as long as it lives this life."""
        if self.exchange.trace is not None:
            self.exchange.trace.failed(error)
        self._retries.failed(worker, error)
        await self._give_up(_ending_of(error))
        if isinstance(error, ConnectFailed) or (isinstance(error, UpstreamTimeout) and error.phase == "connect"):
            self._model.latest.unreachable(worker)

    async def _somebody_comes(self, *, may_spill: bool) -> bool:
        """As `Retries.somebody_comes`; a request that may *spill* waits no longer than it would elsewhere."""
        self.exchange.enter("wait")
        spill_in_s = self._request.spill_in_s if may_spill else None
        return await self._retries.somebody_comes(self._request, spill_in_s=spill_in_s)

    # ---- fallbacks

    def _is_too_long(self) -> bool:
        """For the workers, as far as is known before they have counted."""
        most, need = self._model.context_tokens, self._need
        return most is not None and need is not None and need.prompt_tokens + (need.max_tokens or 0) > most

    def _wait_s(self, fallbacks: FallbackAttempts) -> float | None:
        """When a fallback may answer. A worker may be there before, where there are any."""
        wait_s = fallbacks.retry_in_s
        return wait_s if wait_s is None or not self._model.has_fleet else min(wait_s, WORKER_BACK_S)

    async def _of_fallbacks(
        self, fallbacks: FallbackAttempts, failure: GatewayError | None = None
    ) -> tuple[Attempt | None, GatewayError | None]:
        """The first answer of a fallback, or why there is none: what the last one said. *failure* is the fleet's."""
        if failure is None or self._model.has_fleet:
            attempt, cause = await fallbacks.first_answer(failure)
        else:
            attempt, cause = await fallbacks.patient_answer(
                failure,
                wait_s=self._persistence.wait_at_most_s(self._request.deadline_s),
                max_attempts=self._persistence.most_attempts,
                may_retry=lambda: self._model.retry_budget.take(self._clock()),
            )
        if attempt is not None:
            self.continuation = None
            self._attempt = attempt
        return attempt, cause

    # ---- endings

    async def _give_up(self, ending: Ending) -> None:
        """Close the reply there is and release the booking there is."""
        attempt, self._attempt = self._attempt, None
        booking, self._booking = self._booking, None
        if self.exchange.trace is not None:
            self.exchange.trace.end_attempt(ending)
        try:
            if attempt is not None:
                if booking is not None and self.continuation is not None:
                    self._model.streams.closed(booking.worker, attempt.reply)
                await attempt.reply.aclose()
        finally:
            if booking is not None:
                self._release(booking, ending)

    def _release(self, booking: Booking, ending: Ending) -> None:
        usage = self.exchange.usage if ending is Ending.ANSWERED else None
        outcome = Outcome(ending)
        if usage is not None:
            # Of a spliced answer the cached tokens are those of the worker that began it.
            is_spliced = self.continuation is not None and self.continuation.is_spliced
            cached_tokens = None if is_spliced else usage.cached_tokens
            outcome = Outcome(ending, usage.prompt_tokens, cached_tokens, usage.completion_tokens)
        self._model.fleet.release(booking, outcome, self._clock())
        self._model.turnstile.turn()

    def _exhausted(self) -> GatewayError:
        failure = self._failure
        if isinstance(failure, UpstreamRefused):
            return failure
        why = f": {failure or self._model.why_no_worker() or 'none was left'}"
        return NoWorker(f"No worker for {self._model.name!r} could be reached{why}", retry_after_s=RETRY_AFTER_S)


def _unhelped(failure: GatewayError, cause: GatewayError | None, wait_s: float | None) -> GatewayError:
    """What the caller is told where neither workers nor fallbacks answered: how the workers failed, and to come again.

    A request that only the workers could serve is right: that none is there is not the caller's fault. *wait_s* is
    when a fallback may answer; None: nobody knows.
    """
    why = f", and no fallback can help: {cause}" if isinstance(cause, ClientError) else ""
    if isinstance(failure, NoWorker) or (isinstance(failure, UpstreamRefused) and failure.retry_after_s is None):
        wait_s = failure.retry_after_s or RETRY_AFTER_S if wait_s is None else wait_s
        return NoWorker(f"{failure}{why}", retry_after_s=wait_s)
    if wait_s is not None and failure.retry_after_s is not None:
        failure.retry_after_s = min(failure.retry_after_s, wait_s)
    return failure


def _ending_of(error: UpstreamError) -> Ending:
    """Too much to do is no sign of ill health, nor is a drain, nor that another worker computed no prompt."""
    if isinstance(error, HandedOver | PrefillFailed | AdapterMissing):
        return Ending.ABORTED
    return Ending.REFUSED if isinstance(error, UpstreamRefused) and error.status == OVERLOADED else Ending.FAILED
