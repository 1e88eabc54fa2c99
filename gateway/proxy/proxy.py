"""Serve completion requests through all phases, from the caller's request to the answer.

authenticate -> receive -> parse -> guard -> tokenize -> reserve -> queue -> attempt -> relay -> settle

`Attempts` implements the phases queue and attempt, and `Relay` the phase relay.
"""

import asyncio
import logging
import random
import sys
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from cache_index import WorkerId
from gateway.backends.backend import Call
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.models.response_affinity.affinity import keeping_worker
from gateway.models.response_affinity.owners import ResponseOwners
from gateway.models.route_chooser import RouteChooser, RouteQuery
from gateway.protocol.body import Body
from gateway.protocol.endpoints.endpoint import JSON, Endpoint
from gateway.protocol.errors import AtCapacity, GatewayError, Stopping, UnknownResponse
from gateway.protocol.request_hints import MAX_NAME_LENGTH
from gateway.protocol.splice import Places
from gateway.proxy.admission import Admission
from gateway.proxy.attempts import Attempts
from gateway.proxy.bodies.bodies import Bodies
from gateway.proxy.bodies.budget import BodyShare
from gateway.proxy.cached_answers import CachedAnswers, close_claim
from gateway.proxy.completed_requests import CompletedRequests
from gateway.proxy.continuation.continuation import continuation_of
from gateway.proxy.disconnects import Disconnects, Watch
from gateway.proxy.downstream import Downstream, Send
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.guard import Guard
from gateway.proxy.guardrails.guards import GuardedModels
from gateway.proxy.incoming import YIELD_BYTES, CallerGone, Incoming, Receive, Scope
from gateway.proxy.keep_alive import KeepAlive
from gateway.proxy.relay import Relay
from gateway.proxy.request_ids import RequestIds
from gateway.proxy.retry_policy import RetryPolicy
from gateway.proxy.tracing.tracer import Tracers
from gateway.proxy.worker_call import begun, call_of, prioritized
from gateway.tenancy.teams.caller import Caller
from routing.request import Request

_log = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST = 499
"""Status 499, which nginx uses when a caller disconnects before the answer. It appears only in logs and metrics."""


class Proxy:
    """ASGI application for the URL paths that workers serve."""

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        models: Models,
        *,
        admission: Admission,
        owners: ResponseOwners,
        completed_requests: CompletedRequests,
        disconnects: Disconnects,
        keep_alive: KeepAlive,
        clock: Callable[[], float],
        rng: random.Random,
        bodies: Bodies,
        cached_answers: CachedAnswers,
        retry_policy: RetryPolicy = RetryPolicy(),  # noqa: B008  # frozen
        tracers: Tracers = Tracers(),  # noqa: B008  # stays empty: nothing is traced
        guarded: GuardedModels = GuardedModels(),  # noqa: B008  # stays empty: nothing is guarded
        max_concurrent_requests: int | None = None,
        keeps_decisions: bool = False,
    ) -> None:
        """Create the proxy. *max_concurrent_requests* limits the requests in progress of all callers together. None
        means no limit. *keeps_decisions* keeps routing decisions for the receipts of requests.
        """
        self._admission, self._owners = admission, owners
        self._endpoints, self._models = endpoints, models
        self._relay = Relay(owners, disconnects)
        self._completed_requests = completed_requests
        self._disconnects, self._keep_alive = disconnects, keep_alive
        self._clock = clock
        self._request_ids = RequestIds(rng)
        self._bodies, self._cached_answers = bodies, cached_answers
        self._retry_policy = retry_policy
        self._chooser = RouteChooser(models, owners.peek)
        self._tracers = tracers
        self._guarded = guarded
        self._max_running = sys.maxsize if max_concurrent_requests is None else max_concurrent_requests
        self._keeps_decisions = keeps_decisions
        self._running = 0

    def serves(self, path: str) -> bool:
        return path in self._endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request as an ASGI application."""
        incoming = Incoming(scope, receive)
        request_id = incoming.request_id or self._request_ids.next_id()
        exchange = Exchange(request_id, incoming.path, self._clock())
        exchange.keeps_decision = self._keeps_decisions
        exchange.delivery = incoming.delivery
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
            if exchange.claim is not None:
                close_claim(exchange.claim, exchange)
            exchange.enter(None)
            self._completed_requests.add(exchange, now)

    async def _fault_of(
        self, exchange: Exchange, endpoint: Endpoint, incoming: Incoming, downstream: Downstream
    ) -> GatewayError | None:
        """Serve the request. Return the error for the caller if it failed, or None."""
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
            # If it were raised again, the server would log a trace and send the caller nothing, or plain text.
            return Stopping("The gateway is stopping. Retry the request.", retry_after_s=1)
        except GatewayError as error:
            exchange.error = error.reason
            return error.with_traceback(None)  # a failed connection may hold the error for a while
        except Exception as error:  # noqa: BLE001  # the caller gets an answer whatever failed
            _log.error("request %s failed:\n%s", exchange.request_id.decode("ascii"), _trace(error))
            exchange.error = GatewayError.__name__
            return GatewayError("The gateway failed to serve this request")
        finally:
            share.close()
            self._running -= exchange.runs
        return None

    def _count_running(self, exchange: Exchange) -> None:
        """Count the request of an authenticated caller as running.

        Raises:
            AtCapacity: if the limit of concurrent requests is reached.
        """
        if self._running >= self._max_running:
            limit = f"{self._max_running} concurrent requests (server.max_concurrent_requests)"
            raise AtCapacity(f"The gateway is at its limit of {limit}. Retry in 1 s.", retry_after_s=1)
        self._running += 1
        exchange.runs = True

    async def _serve(
        self, exchange: Exchange, endpoint: Endpoint, incoming: Incoming, downstream: Downstream, share: BodyShare
    ) -> None:
        """Serve a request phase by phase. Raise the error that ends the request early."""
        exchange.enter("authenticate")
        caller = self._admission.known(incoming, exchange) or await self._admission.caller(incoming, exchange)
        self._count_running(exchange)

        exchange.enter("receive")
        raw = await self._receive(exchange, endpoint, incoming, caller, share)

        exchange.enter("parse")
        body = self._admission.isolated(await self._bodies.read(endpoint, raw, incoming), caller)
        if body.previous_response_id is not None:
            await self._owners.look(body.previous_response_id)  # for the synchronous look-ups below
        if self._models.routes is None:
            model = self._models.find(body.model)
        else:
            model = await self._choose_model(exchange, raw, body, incoming, caller)
        exchange.model, exchange.streams = model.name, body.streams and _is_seen(exchange)
        downstream.answers_as = (body.model, model.upstream_name) if model.answers_as_asked else None
        self._check_permissions(exchange, caller, model, body)
        guard: Guard | None = None
        if self._guarded.looks_at(caller):
            guard, raw, body = await self._guard(exchange, endpoint, incoming, caller, raw, body)

        request = exchange.request = await self._tokenize(exchange, raw, body, incoming, caller, model)
        if model.response_caching is not None and await self._cached_answers.answers(
            exchange, incoming, downstream, caller, model, raw, body, request
        ):
            return
        call = call_of(exchange, endpoint, incoming, model, raw, body, request, guard)

        exchange.enter("reserve")
        pending = self._admission.reserve_at_once(exchange, caller, model, body, request)
        if pending is not None:
            await self._admission.reserve(pending)
        exchange.enter(None)

        sent = prioritized(call, endpoint, model, body, request)
        places = None if body.places is None else await self._places(exchange, endpoint, model, sent)
        attempts = self._attempts(exchange, endpoint, caller, model, body, request, call, sent, places)
        del raw, body, call, sent  # a stream may last for minutes, and needs no prompt
        watch = _watch(self._disconnects, exchange, incoming)
        if exchange.streams:
            self._begin_stream(exchange, downstream)
        model.in_flight += 1
        try:
            await self._relay.answer(attempts, downstream, watch, guard)
        except asyncio.CancelledError:
            if not watch.gone:
                raise
            watch.task.uncancel()
            raise CallerGone from None
        finally:
            model.in_flight -= 1
            _end_watch(self._disconnects, exchange, watch)
            if exchange.streams:
                self._keep_alive.end(downstream)
                self._admission.end_stream(exchange, downstream)

    def _receive(
        self, exchange: Exchange, endpoint: Endpoint, incoming: Incoming, caller: Caller | None, share: BodyShare
    ) -> Coroutine[Any, Any, bytes]:
        """Return the coroutine that receives the body. The headers may decide before, unless guardrails check it."""
        delivery, receiving = exchange.delivery, self._bodies.receive(incoming, endpoint, share)
        if delivery is None or not delivery.may_begin or endpoint.media != JSON or self._guarded.looks_at(caller):
            return receiving
        return begun(delivery, exchange, incoming, caller, self._admission, receiving)

    def _begin_stream(self, exchange: Exchange, downstream: Downstream) -> None:
        if exchange.delivery is None:  # otherwise, the server in front of the gateway begins the answer
            self._keep_alive.begin(downstream)
        self._admission.begin_stream(exchange, downstream)

    def _check_permissions(self, exchange: Exchange, caller: Caller | None, model: Model, body: Body) -> None:
        """Raise an error unless *caller* is allowed to send *body* to *model*.

        Raises:
            Forbidden: if the caller may not use the model.
            InvalidField: if the model does not allow a field of the request.
        """
        choice = exchange.choice
        self._admission.check_model(caller, body.model, model.name if choice is None else choice.route)
        model.engine_fields.check(body)
        if body.background:
            self._admission.check_background(caller, model)

    async def _places(self, exchange: Exchange, endpoint: Endpoint, model: Model, call: Call) -> Places | None:
        """Return the positions of the fields of a large request body if its stream can be continued, or None."""
        if model.continuation == "off" or not call.streams or exchange.delivery is not None:
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
        sent: Call,
        places: Places | None,
    ) -> Attempts:
        """Prepare the attempts to send *sent* to workers or *call* to fallbacks, with continuation on other workers."""
        is_continued = model.continuation != "off" and call.streams and exchange.delivery is None
        continuation = (
            continuation_of(exchange.path, sent, body, mode=model.continuation, places=places) if is_continued else None
        )
        return Attempts(
            endpoint,
            model,
            request,
            sent if continuation is None else continuation.call,
            exchange,
            strip_usage=not body.asks_usage,
            continuation=continuation,
            plain_call=call,
            fallback_request=model.fallback_request(exchange.path, body, request, caller),
            retry_policy=self._retry_policy,
            clock=self._clock,
        )

    async def _guard(  # noqa: PLR0917  # in the order in which they are known
        self, exchange: Exchange, endpoint: Endpoint, incoming: Incoming, caller: Caller | None, raw: bytes, body: Body
    ) -> tuple[Guard | None, bytes, Body]:
        """Return the guard for the answer, and the request body to route and send. The body is redacted if a guardrail
        requires it.
        """
        guard = self._guarded.guard(exchange.model or "", caller, exchange, endpoint)
        if guard is None:
            return None, raw, body
        exchange.enter("guard")
        redacted = await guard.request(raw, incoming.content_type, places=body.places, reader=self._bodies)
        if redacted is raw:
            return guard, raw, body
        read = await self._bodies.read(endpoint, redacted, incoming)
        return guard, redacted, self._admission.isolated(read, caller)

    async def _choose_model(
        self, exchange: Exchange, raw: bytes, body: Body, incoming: Incoming, caller: Caller | None
    ) -> Model:
        """Return the model for the request body *body*. Routes can map the requested name to one of several models."""
        asking = RouteQuery(
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

    async def _tokenize(  # noqa: PLR0917  # in the order in which they are known
        self, exchange: Exchange, raw: bytes, body: Body, incoming: Incoming, caller: Caller | None, model: Model
    ) -> Request:
        """Return the request in the form for routing, with the prompt as blocks and with the caller's routing hints."""
        exchange.enter("tokenize")
        exact = await model.exact_prompt(exchange.path, raw, body)
        keeper: WorkerId | None = None
        unknown: UnknownResponse | None = None
        try:
            keeper = keeping_worker(body, model, self._owners.find, exchange.team)
        except UnknownResponse as fault:
            unknown = fault
        if unknown is not None:
            if caller is not None:  # guesses of ids count against the limits of requests
                exchange.model_asked = body.model[:MAX_NAME_LENGTH]
                await self._admission.reserve_look(exchange, caller, model)
            raise unknown
        request = model.request(body, incoming.text_of, keeper, exact, caller)
        if len(raw) > YIELD_BYTES:
            await asyncio.sleep(0)  # hashing the prompt took long, and sending the body does too
        request = _restricted(exchange, incoming, model, request)
        if exchange.trace is not None:
            exchange.trace.asked(incoming, raw, body, request, caller)
        if model.pulls is not None:
            request = model.pulls.allowed(request, exchange.path, body)
        return request if model.prefill_decode is None else model.prefill_decode.divided(request, exchange.path, body)


def _is_seen(exchange: Exchange) -> bool:
    """Return whether the body of the answer passes through the gateway."""
    return exchange.delivery is None or exchange.delivery.shows_answers


def _restricted(exchange: Exchange, incoming: Incoming, model: Model, request: Request) -> Request:
    """Return *request* for the workers that Envoy allows, or that the gateway chose for a request of its own, which it
    may interrupt.
    """
    if exchange.delivery is not None:
        allowed = exchange.delivery.allowed(model.latest.workers)
        return request.changed(allowed=allowed, streams=exchange.streams)
    if incoming.workers is None:
        return request
    interruption = exchange.interruption = incoming.interruption
    yields_in_s = None if interruption is None else interruption.yields_in_s
    return request.changed(allowed=incoming.workers, yields_in_s=yields_in_s)


def _watch(disconnects: Disconnects, exchange: Exchange, incoming: Incoming) -> Watch:
    """Let a disconnect of the caller, or an interruption by the sender, cancel the request from now on."""
    watch = disconnects.begin(incoming.receive)
    if exchange.interruption is not None:
        exchange.interruption.begin(watch.cut)
    return watch


def _end_watch(disconnects: Disconnects, exchange: Exchange, watch: Watch) -> None:
    disconnects.end(watch)
    if exchange.interruption is not None:
        exchange.interruption.end()


def _trace(error: Exception) -> str:
    """Return the traceback and the class of *error* without the text, because the text might quote the prompt."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
