"""Trying candidates in their order until one begins to answer."""

import re
from collections.abc import Callable

import msgspec

from gateway import headers as header_rules
from gateway.backends.backend import Backend, Call, Headers, Reply
from gateway.endpoints.endpoint import JSON, Endpoint
from gateway.endpoints.faults import fault_in, reason_in
from gateway.errors import ClientError, NoWorker, ReplyBroken, UpstreamError, UpstreamRefused
from gateway.exchange import Exchange
from gateway.models import Model
from gateway.sse import Tail
from routing.booking import Booking, Ending, Outcome
from routing.candidate import Candidate
from routing.dispatcher import Dispatch

OK = 200
CLIENT_ERRORS = range(400, 500)
OVERLOADED = 429
WORKERS_FAULT = frozenset({401, 403, 408, OVERLOADED})
"""4xx that are not about the request: the gateway's own key was refused, the worker was slow or has too much to do."""

WHOLE_ANSWER_BYTES = 64 * 2**20
"""An answer that does not stream is kept until it is complete, so that a worker that dies meanwhile is not noticed."""

RETRY_AFTER_S = 2.0
"""When to ask again if nobody is there: about the interval of health checks."""


_aborted = re.compile(rb'"finish_reason"\s*:\s*"abort"').search
_is_status = re.compile(r"[0-9]{3}").fullmatch


class Attempt(msgspec.Struct):
    """A backend has begun to answer."""

    reply: Reply
    status: int
    """As the caller gets it, like the headers: an engine may say 200 before it knows that it refuses."""
    headers: Headers
    first: bytes
    """What may go downstream already: all of an answer that does not stream, else the first events. Whoever passes
    them on forgets them: announcements can be long, and so can be the stream."""
    tail: Tail | None
    """Watches the stream; None if the answer does not stream."""
    response_id: str | None
    """Under which the worker keeps the answer, where the API knows such a thing."""


class Attempts:
    """The attempts of one request: one reply and one booking at a time, both given back in the end."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: Model,
        dispatch: Dispatch,
        call: Call,
        exchange: Exchange,
        *,
        strip_usage: bool,
        may_fall_back: bool = True,
        clock: Callable[[], float],
        most: int | None,
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._dispatch = dispatch
        self._call: Call | None = call
        self._strip_usage = strip_usage
        self._fallback = model.fallback if may_fall_back else None
        self.exchange = exchange
        self._clock = clock
        self._order = dispatch.order[:most]
        self._booking: Booking | None = dispatch.booking
        self._reply: Reply | None = None
        self._ending = Ending.ABORTED

    async def first_answer(self) -> Attempt:
        """The first answer that is none of a worker's failures; it may say that the caller is wrong.

        To be called once: the call is forgotten, because a stream may outlive the need for a long prompt by minutes.

        Raises:
            UpstreamRefused: every candidate failed, the last with an error status of its own.
            NoWorker: nobody is there.
        """
        call, self._call = self._call, None
        assert call is not None, "it was asked already"
        failure: UpstreamError | None = None
        try:
            for candidate in self._order:
                if not self._book(candidate):
                    await self._give_up(Ending.ABORTED)
                    continue
                try:
                    return await self._ask(self._model.workers[candidate.worker], call)
                except UpstreamError as error:
                    failure = error.with_traceback(None)
                    await self._give_up(_ending_of(error))
            if self._fallback is None:
                raise self._exhausted(failure)
            try:
                return await self._fall_back(self._fallback, call)
            except UpstreamError as error:
                # What the caller is told is how the fleet failed; the fallback's own failure is the cause.
                raise self._exhausted(failure) from error.with_traceback(None)
        finally:
            # An error with a traceback holds the frames it went through, and so the call. Where a frame, or a
            # connection that failed, holds the error as well, only the cycle collector would free them.
            failure = None

    def answered(self, attempt: Attempt) -> None:
        """The answer has been passed on completely."""
        tail, exchange = attempt.tail, self.exchange
        if attempt.status in CLIENT_ERRORS or (tail is not None and _refused_status(tail) is not None):
            self._ending = Ending.REFUSED
            exchange.error = "Refused"
            return
        if tail is not None and (tail.failed is not None or tail.aborted):
            self._ending = Ending.FAILED
            exchange.error = ReplyBroken.__name__
            return
        self._ending = Ending.ANSWERED
        exchange.usage = self._endpoint.usage_of(attempt.first) if tail is None else tail.usage

    def broken(self) -> None:
        """The worker failed after its first byte."""
        self._ending = Ending.FAILED

    async def aclose(self) -> None:
        """Close the reply and release the booking, telling how it ended: aborted, unless something else was said."""
        await self._give_up(self._ending)

    def _book(self, candidate: Candidate) -> bool:
        """Whether the request has a place on *candidate*; on the first it was booked at dispatch."""
        exchange = self.exchange
        if self._booking is None or self._booking.worker != candidate.worker:
            self._booking = self._model.fleet.book(self._dispatch.request, candidate, self._clock())
        if self._booking is None or candidate.worker not in self._model.workers:
            return False
        exchange.backend = candidate.worker
        exchange.hit_blocks = candidate.hit_blocks
        exchange.hit_tokens = candidate.hit_tokens
        exchange.hit_source = candidate.source
        return True

    async def _ask(self, backend: Backend, call: Call) -> Attempt:
        """One attempt, up to the first useful byte."""
        self.exchange.attempts += 1
        reply = self._reply = await backend.send(call)
        if is_workers_fault(reply.status):
            raise await refusal(backend.id, reply)
        if call.streams and reply.status == OK:
            return await self._begun(backend, reply)
        body = await whole(reply)
        if reply.status == OK and b'"abort"' in body and _aborted(body):
            raise _gave_up(backend)
        return self._answer(reply, body)

    def _answer(self, reply: Reply, body: bytes) -> Attempt:
        """An answer that came whole."""
        status, headers = reply.status, header_rules.downstream(reply.headers)
        if status not in CLIENT_ERRORS:
            return Attempt(reply, status, headers, body, None, self._endpoint.response_id_of(body))
        if not header_rules.is_compressed(headers):
            told = self._endpoint.normalised(status, body)
            if told is not body:
                body, headers = told, header_rules.of_another_body(headers, JSON)
        return Attempt(reply, status, headers, body, None, None)

    async def _begun(self, backend: Backend, reply: Reply) -> Attempt:
        """A stream of which there is more than announcements: until then another worker can still be asked."""
        tail = self._endpoint.tail(strip_usage=self._strip_usage)
        pieces = [tail.feed(await reply.read())]
        while not tail.begun and not reply.ended and tail.failed is None:
            pieces.append(tail.feed(await reply.read()))
        if reply.ended and not tail.inside_event:
            pieces.append(tail.finish())
        if tail.failed is not None:
            return self._refused(backend, reply, tail, tail.failed)
        if tail.aborted:
            raise _gave_up(backend)
        if not tail.begun or (reply.ended and not tail.done):
            raise ReplyBroken(f"{backend.id} ended the stream before it was complete")
        first = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        now = self._clock()
        self.exchange.first_byte = now
        if self._booking is not None:
            self._model.fleet.first_byte(self._booking, now)
            self._model.turnstile.turn()
        return Attempt(reply, OK, header_rules.downstream(reply.headers), first, tail, tail.response_id)

    def _refused(self, backend: Backend, reply: Reply, tail: Tail, failed: bytes) -> Attempt:
        """A stream that begins with an error, as the plain answer that it should have been.

        Raises:
            ReplyBroken: the error is the worker's.
        """
        status = _refused_status(tail)
        if status is None:
            raise ReplyBroken(f"{backend.id} answered with an error event: {_reason(failed)}")
        headers = header_rules.of_another_body(header_rules.downstream(reply.headers), JSON)
        return Attempt(reply, status, headers, self._endpoint.errors.body(fault_in(status, failed)), None, None)

    async def _fall_back(self, fallback: Backend, call: Call) -> Attempt:
        """No worker answered: Bedrock does, if it can serve the request as it is."""
        exchange = self.exchange
        exchange.backend = fallback.id
        exchange.hit_blocks = 0
        exchange.hit_tokens = 0.0
        exchange.hit_source = None
        try:
            attempt = await self._ask(fallback, call)
        except ClientError as error:
            # The request is right, and a worker would have served it: that none is there is not the caller's fault.
            raise NoWorker(
                f"No worker is up, and the fallback cannot help: {error}", retry_after_s=RETRY_AFTER_S
            ) from error
        exchange.fell_back = True
        return attempt

    async def _give_up(self, ending: Ending) -> None:
        """Close the reply there is and release the booking there is."""
        reply, self._reply = self._reply, None
        booking, self._booking = self._booking, None
        try:
            if reply is not None:
                await reply.aclose()
        finally:
            if booking is not None:
                self._release(booking, ending)

    def _release(self, booking: Booking, ending: Ending) -> None:
        usage = self.exchange.usage if ending is Ending.ANSWERED else None
        outcome = Outcome(ending)
        if usage is not None:
            outcome = Outcome(ending, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
        self._model.fleet.release(booking, outcome, self._clock())
        self._model.turnstile.turn()

    def _exhausted(self, failure: UpstreamError | None) -> Exception:
        if isinstance(failure, UpstreamRefused):
            return failure
        why = f": {failure}" if failure else ""
        return NoWorker(f"No worker for {self._model.name!r} could be reached{why}", retry_after_s=RETRY_AFTER_S)


def _gave_up(backend: Backend) -> ReplyBroken:
    """As vLLM says, with 200, of all that it does not complete because it stops or falls asleep."""
    return ReplyBroken(f"{backend.id} gave the request up before it was complete")


def _ending_of(error: UpstreamError) -> Ending:
    """Too much to do is no sign of ill health."""
    return Ending.REFUSED if isinstance(error, UpstreamRefused) and error.status == OVERLOADED else Ending.FAILED


def _refused_status(tail: Tail) -> int | None:
    """The status with which an error event says that the caller is wrong; None if there is no such event.

    SGLang finds only in the stream, after its 200, that a prompt is too long, and vLLM some of what it refuses.
    """
    code = str(fault_in(OK, tail.failed).code) if tail.failed is not None else ""
    status = int(code) if _is_status(code) else 0
    return status if status in CLIENT_ERRORS and not is_workers_fault(status) else None


def is_workers_fault(status: int) -> bool:
    """Whether another worker may do better."""
    return status >= 500 or status in WORKERS_FAULT


async def whole(reply: Reply) -> bytes:
    """The body of *reply*, when it is complete.

    Raises:
        UpstreamError: as `Reply.read`, or it is larger than `WHOLE_ANSWER_BYTES`.
    """
    pieces: list[bytes] = []
    size = 0
    while not reply.ended:
        data = await reply.read()
        if not data:
            break
        pieces.append(data)
        size += len(data)
        if size > WHOLE_ANSWER_BYTES:
            raise ReplyBroken(f"The answer is larger than {WHOLE_ANSWER_BYTES} bytes")
    return b"".join(pieces) if len(pieces) != 1 else pieces[0]


async def refusal(backend_id: str, reply: Reply) -> UpstreamRefused:
    """A backend's error status as an error of ours, with what the backend said, but never with its 401 or 403.

    Those mean the gateway's own key; told on, they would send the caller looking for a fault in theirs.
    """
    status = reply.status if reply.status not in (401, 403) else 502
    body = await whole(reply)
    said = _reason(b"" if header_rules.is_compressed(reply.headers) else body)
    retry_after_s = RETRY_AFTER_S if status in (OVERLOADED, 503) else None
    return UpstreamRefused(f"{backend_id} answered {reply.status}: {said}", status=status, retry_after_s=retry_after_s)


def _reason(body: bytes) -> str:
    return reason_in(body) or "no reason given"
