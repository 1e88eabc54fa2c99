"""Trying candidates in their order until one begins to answer."""

from collections.abc import Callable

import msgspec

from gateway.backends.backend import Backend, Call, Reply
from gateway.errors import ClientError, NoWorker, ReplyBroken, UpstreamError, UpstreamRefused
from gateway.exchange import Exchange
from gateway.models import Model
from gateway.sse import StreamTail, usage_of
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


class Attempt(msgspec.Struct, frozen=True):
    """A backend has begun to answer."""

    reply: Reply
    first: bytes
    """What may go downstream already: all of an answer that does not stream, else the first events."""
    tail: StreamTail | None
    """Watches the stream; None if the answer does not stream."""


class Attempts:
    """The attempts of one request: one reply and one booking at a time, both given back in the end."""

    def __init__(
        self, model: Model, dispatch: Dispatch, exchange: Exchange, *, clock: Callable[[], float], most: int | None
    ) -> None:
        self._model = model
        self._dispatch = dispatch
        self._exchange = exchange
        self._clock = clock
        self._order = dispatch.order[:most]
        self._booking: Booking | None = dispatch.booking
        self._reply: Reply | None = None
        self._ending = Ending.ABORTED

    async def first_answer(self, call: Call, *, strip_usage: bool) -> Attempt:
        """The first answer that is none of a worker's failures; it may say that the caller is wrong.

        Raises:
            UpstreamRefused: every candidate failed, the last with an error status of its own.
            NoWorker: nobody is there.
        """
        failure: UpstreamError | None = None
        for candidate in self._order:
            if not self._book(candidate):
                await self._give_up(Ending.ABORTED)
                continue
            try:
                return await self._ask(self._model.workers[candidate.worker], call, strip_usage=strip_usage)
            except UpstreamError as error:
                failure = error
                await self._give_up(_ending_of(error))
        if self._model.fallback is not None:
            try:
                return await self._fall_back(self._model.fallback, call, strip_usage=strip_usage)
            except UpstreamError as error:
                # What the caller is told is how the fleet failed; the fallback's own failure is the cause.
                raise self._exhausted(failure) from error
        raise self._exhausted(failure)

    def answered(self, attempt: Attempt) -> None:
        """The answer has been passed on completely."""
        tail, exchange = attempt.tail, self._exchange
        if attempt.reply.status in CLIENT_ERRORS:
            self._ending = Ending.REFUSED
            exchange.error = "Refused"
            return
        if tail is not None and tail.failed is not None:
            self._ending = Ending.FAILED
            exchange.error = ReplyBroken.__name__
            return
        self._ending = Ending.ANSWERED
        exchange.usage = usage_of(attempt.first) if tail is None else tail.usage

    def broken(self) -> None:
        """The worker failed after its first byte."""
        self._ending = Ending.FAILED

    async def aclose(self) -> None:
        """Close the reply and release the booking, telling how it ended: aborted, unless something else was said."""
        await self._give_up(self._ending)

    def _book(self, candidate: Candidate) -> bool:
        """Whether the request has a place on *candidate*; on the first it was booked at dispatch."""
        exchange = self._exchange
        if self._booking is None or self._booking.worker != candidate.worker:
            self._booking = self._model.fleet.book(self._dispatch.request, candidate, self._clock())
        if self._booking is None or candidate.worker not in self._model.workers:
            return False
        exchange.backend = candidate.worker
        exchange.hit_blocks = candidate.hit_blocks
        return True

    async def _ask(self, backend: Backend, call: Call, *, strip_usage: bool) -> Attempt:
        """One attempt, up to the first useful byte."""
        self._exchange.attempts += 1
        reply = self._reply = await backend.send(call)
        if reply.status >= 500 or reply.status in WORKERS_FAULT:
            raise await _refusal(backend.id, reply)
        if not call.streams or reply.status != OK:
            return Attempt(reply, await _whole(reply), None)
        tail = StreamTail(strip_usage=strip_usage)
        first = tail.feed(await reply.read())
        while not first and not reply.ended:
            first = tail.feed(await reply.read())
        if tail.failed is not None:
            raise ReplyBroken(f"{backend.id} answered with an error event: {_message(tail.failed)}")
        if not first:
            raise ReplyBroken(f"{backend.id} ended the stream before its first event")
        now = self._clock()
        self._exchange.first_byte = now
        if self._booking is not None:
            self._model.fleet.first_byte(self._booking, now)
        return Attempt(reply, first, tail)

    async def _fall_back(self, fallback: Backend, call: Call, *, strip_usage: bool) -> Attempt:
        """No worker answered: Bedrock does, if it can serve the request as it is."""
        exchange = self._exchange
        exchange.backend = fallback.id
        exchange.hit_blocks = 0
        try:
            attempt = await self._ask(fallback, call, strip_usage=strip_usage)
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
        usage = self._exchange.usage if ending is Ending.ANSWERED else None
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


def _ending_of(error: UpstreamError) -> Ending:
    """Too much to do is no sign of ill health."""
    return Ending.REFUSED if isinstance(error, UpstreamRefused) and error.status == OVERLOADED else Ending.FAILED


async def _whole(reply: Reply) -> bytes:
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


async def _refusal(backend_id: str, reply: Reply) -> UpstreamRefused:
    """A backend's error status as an error of ours, with what the backend said, but never with its 401 or 403.

    Those mean the gateway's own key; told on, they would send the caller looking for a fault in theirs.
    """
    status = reply.status if reply.status not in (401, 403) else 502
    said = _message(await _whole(reply))
    retry_after_s = RETRY_AFTER_S if status in (OVERLOADED, 503) else None
    return UpstreamRefused(f"{backend_id} answered {reply.status}: {said}", status=status, retry_after_s=retry_after_s)


class _Said(msgspec.Struct):
    """The error shapes of vLLM (nested), SGLang and Dynamo (flat)."""

    error: "_Said | str | None" = None
    message: str | None = None


def _message(body: bytes) -> str:
    """What an error body says, in one line of bounded length."""
    try:
        said = msgspec.json.decode(body, type=_Said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "no reason given"
    inner = said.error
    text = inner.message if isinstance(inner, _Said) else inner or said.message
    return " ".join((text or "no reason given").split())[:500]
