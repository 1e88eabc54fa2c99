"""The life of a completion request, from the caller's bytes to the caller's bytes.

1. Nothing goes downstream before the first useful byte of an answer is here. Until then every failure of a worker is
   invisible: the next candidate is tried, never one that has failed.
2. After it, another worker goes on where that is exact. Else a failure is an SSE error event and the end of the stream,
   without a `[DONE]` that would claim success.
3. What was booked is released and what was opened is closed, however the request ends.
"""

import asyncio
import logging
import random
import sys
import traceback
from collections.abc import Callable, Mapping

from cache_index import WorkerId
from gateway.admission import Admission
from gateway.attempt import Attempt
from gateway.attempts import Attempts
from gateway.backends.backend import Call
from gateway.bodies.bodies import Bodies
from gateway.bodies.budget import BodyShare
from gateway.body import Body
from gateway.continuation.continuation import Continuation, continuation_of
from gateway.disconnects import Disconnects, Watch
from gateway.downstream import Downstream, Send
from gateway.endings import Endings
from gateway.endpoints.endpoint import Endpoint
from gateway.engine_fields import check_engine_fields
from gateway.errors import AtCapacity, GatewayError, ReplyBroken, Stopping, UnknownResponse, UpstreamError
from gateway.exchange import Exchange
from gateway.guardrails.guard import Guard
from gateway.guardrails.guards import GuardedModels
from gateway.incoming import CallerGone, Incoming, Receive, Scope
from gateway.keep_alive import KeepAlive
from gateway.keeper import keeper_of
from gateway.model import Model
from gateway.models import Models
from gateway.persistence import Persistence
from gateway.response_owners import Owner, ResponseOwners
from gateway.rollout.chooser import Asking, Chooser
from gateway.splice import Places
from gateway.teams.caller import Caller
from gateway.tracing.tracer import Tracers
from gateway.wishes import LONGEST_NAME
from routing.request import Request

_log = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST = 499
"""nginx's number for a caller that went away before it got an answer; it stands in logs and metrics only."""


class Proxy:
    """Serves the endpoints that workers answer, by path."""

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        models: Models,
        *,
        admission: Admission,
        owners: ResponseOwners,
        endings: Endings,
        disconnects: Disconnects,
        keep_alive: KeepAlive,
        clock: Callable[[], float],
        rng: random.Random,
        bodies: Bodies,
        persistence: Persistence = Persistence(),  # noqa: B008  # frozen
        tracers: Tracers = Tracers(),  # noqa: B008  # nobody changes this one: nothing is traced
        guarded: GuardedModels = GuardedModels(),  # noqa: B008  # nor this one: nothing is guarded
        max_concurrent_requests: int | None = None,
    ) -> None:
        """*max_concurrent_requests* of all callers together are served at once; None: any number."""
        self._admission = admission
        self._endpoints = endpoints
        self._models = models
        self._owners = owners
        self._endings = endings
        self._disconnects = disconnects
        self._keep_alive = keep_alive
        self._clock = clock
        self._rng = rng
        self._bodies = bodies
        self._persistence = persistence
        self._chooser = Chooser(models, owners.peek)
        self._tracers = tracers
        self._guarded = guarded
        self._most_running = sys.maxsize if max_concurrent_requests is None else max_concurrent_requests
        self._running = 0

    def serves(self, path: str) -> bool:
        return path in self._endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an ASGI application for the paths that it serves."""
        incoming = Incoming(scope, receive)
        exchange = self._exchange(incoming)
        endpoint = self._endpoints[exchange.path]
        tracer = self._tracers.current
        if tracer is not None:
            exchange.trace = trace = tracer.begin(incoming, exchange.started)
            send = send if trace is None else trace.watching(send)
        downstream = Downstream(send, exchange, endpoint)
        try:
            fault = await self._fault_of(exchange, endpoint, incoming, downstream)
            if fault is not None:
                await downstream.fail(fault)
        finally:
            now = self._clock()
            if exchange.trace is not None:
                exchange.trace.failed_here(exchange.error)
            exchange.enter("settle")
            self._admission.settle(exchange, now)
            exchange.enter(None)
            self._endings.add(exchange, now)

    async def _fault_of(
        self, exchange: Exchange, endpoint: Endpoint, incoming: Incoming, downstream: Downstream
    ) -> GatewayError | None:
        """Serve; return the error for the caller where that failed."""
        share = self._bodies.share()
        try:
            self._bodies.check_memory()
            await self._serve(exchange, endpoint, incoming, downstream, share)
        except CallerGone:
            exchange.error = CallerGone.__name__
            exchange.status = exchange.status or CLIENT_CLOSED_REQUEST
        except asyncio.CancelledError:
            if not downstream.ended:
                exchange.error = Stopping.__name__
            if not downstream.takes_error:
                raise
            # Not raised again: the server would log a trace and tell the caller nothing, or plain text.
            return Stopping("The gateway is stopping, ask again", retry_after_s=1)
        except GatewayError as error:
            exchange.error = error.reason
            return error.with_traceback(None)  # a connection that failed may hold it for a while
        except Exception as error:  # noqa: BLE001  # whatever it was, the caller gets an answer
            _log.error("request %s failed:\n%s", exchange.request_id.decode("ascii"), _trace(error))
            exchange.error = GatewayError.__name__
            return GatewayError("The gateway failed to serve this request")
        finally:
            share.close()
            self._running -= exchange.runs
        return None

    def _let_in(self, exchange: Exchange) -> None:
        """Count a request of a known caller among those that run. Strangers take no room.

        Raises:
            AtCapacity: too many run.
        """
        if self._running >= self._most_running:
            text = f"The gateway serves {self._most_running} requests already (server.max_concurrent_requests)"
            raise AtCapacity(text, retry_after_s=1)
        self._running += 1
        exchange.runs = True

    async def _serve(
        self, exchange: Exchange, endpoint: Endpoint, incoming: Incoming, downstream: Downstream, share: BodyShare
    ) -> None:
        exchange.enter("authenticate")
        caller = self._admission.known(incoming, exchange) or await self._admission.caller(incoming, exchange)
        self._let_in(exchange)
        exchange.enter("receive")
        raw = await self._bodies.receive(incoming, endpoint, share)
        exchange.enter("parse")
        body = self._admission.isolated(await self._bodies.read(endpoint, raw, incoming.content_type), caller)
        if body.previous_response_id is not None:
            await self._owners.look(body.previous_response_id)  # for all who ask below what is known of it
        if self._models.routes is None:
            model = self._models.find(body.model)
        else:
            model = await self._chosen(exchange, raw, body, incoming, caller)
        exchange.model, exchange.streams = model.name, body.streams
        downstream.answers_as = (body.model, model.upstream_name) if model.answers_as_asked else None
        self._check(exchange, caller, model, body)
        guard: Guard | None = None
        if self._guarded.looks_at(caller):
            guard, raw, body = await self._redacted(exchange, endpoint, incoming, caller, raw, body)
        upstream_body = endpoint.upstream_body(raw, incoming.content_type, body, model.upstream_name)
        call = self._call(exchange, endpoint, incoming, body, upstream_body, guard)
        request = await self._request(exchange, raw, body, incoming, caller, model)
        request = request if model.division is None else model.division.divided(request, exchange.path, body)
        exchange.enter("reserve")
        asked = self._admission.reserve_at_once(exchange, caller, model, body, request)
        if asked is not None:
            await self._admission.reserve(asked)
        exchange.enter(None)
        places = None if body.places is None else await self._places(endpoint, model, call)
        attempts = self._attempts(exchange, endpoint, caller, model, body, request, call, places)
        # As the attempts do: a stream may go on for long when nobody needs its prompt.
        del raw, body, call, upstream_body
        watch = self._disconnects.begin(incoming.receive)
        if exchange.streams:
            self._keep_alive.begin(downstream)
            self._admission.begin_stream(exchange, downstream)
        model.in_flight += 1
        try:
            await self._answer(attempts, downstream, watch, guard)
        except asyncio.CancelledError:
            if not watch.gone:
                raise
            watch.task.uncancel()
            raise CallerGone from None
        finally:
            model.in_flight -= 1
            self._disconnects.end(watch)
            if exchange.streams:
                self._keep_alive.end(downstream)
                self._admission.end_stream(exchange, downstream)

    def _check(self, exchange: Exchange, caller: Caller | None, model: Model, body: Body) -> None:
        """Check that *caller* may send *body* to *model*.

        Raises:
            Forbidden, InvalidField: it may not; the field is named.
        """
        choice = exchange.choice
        self._admission.check_model(caller, body.model, model.name if choice is None else choice.route)
        if body.engine_fields:
            check_engine_fields(body.engine_fields, model.allowed_engine_fields)
        if body.background:
            self._admission.check_background(caller, model)

    def _call(  # noqa: PLR0917  # in the order in which they are known
        self,
        exchange: Exchange,
        endpoint: Endpoint,
        incoming: Incoming,
        body: Body,
        upstream_body: bytes,
        guard: Guard | None,
    ) -> Call:
        """The request as a worker gets it."""
        return Call(
            method=b"POST",
            path=incoming.target,
            headers=incoming.upstream_headers(exchange.request_id, endpoint.media),
            body=upstream_body,
            streams=body.streams,
            model=body.model,
            guardrail=None if guard is None else guard.native,
        )

    async def _places(self, endpoint: Endpoint, model: Model, call: Call) -> Places | None:
        """Where the fields are in a large body that another worker may have to go on with; None: find them at once."""
        if model.continuation == "off" or not call.streams:
            return None
        return await self._bodies.places(endpoint, call.body)

    def _attempts(  # noqa: PLR0917  # in the order in which they are known
        self,
        exchange: Exchange,
        endpoint: Endpoint,
        caller: Caller | None,
        model: Model,
        body: Body,
        request: Request,
        call: Call,
        places: Places | None,
    ) -> Attempts:
        """*call* as it is sent, and whoever else may answer or go on with it."""
        is_continued = model.continuation != "off" and call.streams
        continuation = (
            continuation_of(exchange.path, call, body, mode=model.continuation, places=places) if is_continued else None
        )
        return Attempts(
            endpoint,
            model,
            request,
            call if continuation is None else continuation.call,
            exchange,
            strip_usage=not body.asks_usage,
            continuation=continuation,
            plain_call=call,
            need=model.need(exchange.path, body, request, caller),
            persistence=self._persistence,
            clock=self._clock,
        )

    async def _redacted(  # noqa: PLR0917  # in the order in which they are known
        self,
        exchange: Exchange,
        endpoint: Endpoint,
        incoming: Incoming,
        caller: Caller | None,
        raw: bytes,
        body: Body,
    ) -> tuple[Guard | None, bytes, Body]:
        """What is routed, counted and sent from here on: what the caller sent, without what must not go on."""
        guard = self._guarded.guard(exchange.model or "", caller, exchange, endpoint)
        if guard is None:
            return None, raw, body
        exchange.enter("guardrails")
        told = await guard.request(raw, incoming.content_type, places=body.places, reader=self._bodies)
        if told is raw:
            return guard, raw, body
        read = await self._bodies.read(endpoint, told, incoming.content_type)
        return guard, told, self._admission.isolated(read, caller)

    async def _chosen(
        self, exchange: Exchange, raw: bytes, body: Body, incoming: Incoming, caller: Caller | None
    ) -> Model:
        """The model for *body*, whose name may stand for several."""
        asking = Asking(
            path=exchange.path,
            raw=raw,
            body=body,
            header=incoming.text_of,
            key=exchange.key,
            team=exchange.team,
            user=exchange.user,
            permits=None if caller is None else caller.permits,
        )
        model, exchange.choice = await self._chooser.model(asking)
        return model

    async def _request(  # noqa: PLR0917  # in the order in which they are known
        self, exchange: Exchange, raw: bytes, body: Body, incoming: Incoming, caller: Caller | None, model: Model
    ) -> Request:
        """What routing is to know of it."""
        exchange.enter("tokens")
        exact = await model.exact_prompt(exchange.path, raw, body)
        keeper: WorkerId | None = None
        unknown: UnknownResponse | None = None
        try:
            keeper = keeper_of(body, model, self._owners.find, exchange.team)
        except UnknownResponse as fault:
            unknown = fault
        if unknown is not None:
            if caller is not None:  # so that ids cannot be guessed without end
                exchange.model_asked = body.model[:LONGEST_NAME]
                await self._admission.reserve_look(exchange, caller, model)
            raise unknown
        request = model.request(body, incoming.text_of, keeper, exact, caller)
        if exchange.trace is not None:
            exchange.trace.asked(incoming, raw, body, request, caller)
        return request

    async def _answer(self, attempts: Attempts, downstream: Downstream, watch: Watch, guard: Guard | None) -> None:
        """Send, relay, settle."""
        failure: BaseException | None = None
        try:
            attempt = await attempts.first_answer()
            if attempt.response_id is not None:
                self._remember(attempt.response_id, attempts.exchange)
            if attempt.tail is None:
                if guard is not None:
                    await guard.answer(attempt)
                attempts.note_prompt(attempt)
                await downstream.answer(attempt.status, attempt.headers, attempt.first)
                attempts.answered(attempt)
            else:
                await downstream.start(attempt.status, attempt.headers)
                await _relay(attempt, attempts, downstream, guard)
        except BaseException as error:  # noqa: BLE001  # raised again below
            failure = error
        try:
            if isinstance(failure, UpstreamError):
                attempts.broken(failure)
            if downstream.tail is not None:
                attempts.exchange.streamed_events += downstream.tail.events
            self._disconnects.end(watch)  # an answered caller may leave: that must not cut short the closing
            await attempts.aclose()
            if failure is not None:
                raise failure
        finally:
            del failure  # its traceback holds this frame

    def _remember(self, response_id: str, exchange: Exchange) -> None:
        if exchange.model is not None and exchange.backend is not None and not exchange.fell_back:
            asked = exchange.model_asked or ""
            asked = asked if len(asked) < LONGEST_NAME else ""  # it may be cut
            self._owners.remember(response_id, Owner(exchange.model, WorkerId(exchange.backend), exchange.team, asked))

    def _exchange(self, incoming: Incoming) -> Exchange:
        request_id = incoming.request_id or b"%032x" % self._rng.getrandbits(128)
        return Exchange(request_id=request_id, path=incoming.path, started=self._clock())


async def _relay(attempt: Attempt, attempts: Attempts, downstream: Downstream, guard: Guard | None) -> None:
    """Pass a stream on to its end, from one worker to the next if need be."""
    continuation = attempts.continuation
    while True:
        try:
            await _pass_on(attempt, downstream, continuation, guard)
        except UpstreamError as error:
            if continuation is None:
                raise
            failure = error.with_traceback(None)
        else:
            attempts.answered(attempt)
            return
        rest = continuation.closing()
        if rest is not None:
            attempts.completed()
            await _write_last(rest, downstream, guard)
            return
        attempt = await attempts.go_on(failure)


async def _pass_on(
    attempt: Attempt, downstream: Downstream, continuation: Continuation | None, guard: Guard | None
) -> None:
    """Pass on, as it comes, what one worker gives of a stream.

    Raises:
        UpstreamError: it was not complete. If somebody could go on, nothing of the failure is with the caller.
        GatewayError: a guardrail has ended it, and told the caller.
    """
    reply, tail = attempt.reply, attempt.tail
    assert tail is not None, "a whole answer is no stream"
    downstream.tail = tail
    data, attempt.first = attempt.first, b""
    while True:
        if data and continuation is not None:
            data = continuation.passed(data)
        if guard is not None:
            data = guard.passed(data)
            if guard.blocked is not None:
                await _write_last(data, downstream, None)
                raise guard.blocked
        if data:
            await downstream.write(data)
        if downstream.stopped is not None:
            raise downstream.stopped
        if continuation is not None and (tail.aborted or tail.failed is not None):
            raise _incomplete()
        if reply.ended:
            break
        data = tail.feed(await reply.read())
    if tail.inside_event:
        raise _incomplete()
    rest = tail.finish()
    if not tail.done and tail.failed is None:
        raise _incomplete()
    if rest and continuation is not None:
        rest = continuation.passed(rest)
    await _write_last(rest, downstream, guard)


async def _write_last(rest: bytes, downstream: Downstream, guard: Guard | None) -> None:
    """The end of a stream, which a guardrail may yet change.

    Raises:
        GatewayError: as `_pass_on`.
    """
    if guard is not None:
        rest = await guard.finish(rest)
    await downstream.write(rest, last=True)
    if guard is not None and guard.blocked is not None:
        raise guard.blocked


def _trace(error: Exception) -> str:
    """Where *error* came from and what it is, without its text: that might quote the prompt."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__


def _incomplete() -> ReplyBroken:
    return ReplyBroken("The worker ended the stream before it was complete")
