"""Routes ``/v1/responses/{id}`` and below. In contrast, the proxy serves requests that create a response."""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.api.callers import AnyCaller
from gateway.api.kept_looks import KeptLooks
from gateway.api.kept_responses import KeptResponses
from gateway.backends.backend import Call, Reply, whole
from gateway.protocol import headers as header_rules
from gateway.protocol.answer_name import AnswerName
from gateway.protocol.endpoints.endpoint import JSON
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import GatewayError, UnknownResponse, UpstreamError
from gateway.protocol.headers import Headers
from gateway.proxy.attempt import CLIENT_ERRORS, Attempt
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.guard import Guard
from gateway.proxy.incoming import CallerGone
from gateway.tenancy.teams.caller import Caller

router = APIRouter(tags=["responses"])

_ENDPOINT = ENDPOINTS["/v1/responses"]
_EVENTS = b"text/event-stream"
_OK = 200


@router.get("/v1/responses/{response_id}", summary="Return a stored response")
@router.delete("/v1/responses/{response_id}", summary="Delete a stored response")
@router.get("/v1/responses/{response_id}/input_items", summary="List the input items of a stored response")
@router.post("/v1/responses/{response_id}/cancel", summary="Cancel a response that is generated in the background")
async def kept_response(request: Request, response_id: str, caller: AnyCaller) -> Response:
    """Return the worker's reply about a stored response. Only the team that owns the response receives it.

    Each call counts as a request of the team.
    """
    looks: KeptLooks = request.app.state.kept_looks
    request_id = header_rules.request_id_of(header_rules.fields(request.headers.raw))
    assert request_id is not None, "the gateway gives every request an id"
    exchange = looks.begin(request_id, request.scope["route"].path, caller)
    try:
        response = await _response(request, response_id, caller, exchange)
    except GatewayError as error:
        exchange.status, exchange.error = error.status, error.reason
        looks.end(exchange)
        raise
    except BaseException:
        exchange.error = CallerGone.__name__
        looks.end(exchange)
        raise
    exchange.status = response.status_code
    if isinstance(response, _Relayed):
        response.ended = partial(looks.end, exchange)
    else:
        looks.end(exchange)
    return response


async def _response(request: Request, response_id: str, caller: Caller | None, exchange: Exchange) -> Response:
    kept: KeptResponses = request.app.state.kept_responses
    looks: KeptLooks = request.app.state.kept_looks
    try:
        owner = await kept.owner(response_id, caller)
    except UnknownResponse:
        await looks.reserve(exchange, caller, None)  # so that ids cannot be guessed without end
        raise
    model = None if owner is None else kept.model_of(owner)
    await looks.reserve(exchange, caller, model)
    if owner is not None and model is not None:
        exchange.backend = owner.worker
    guards = kept.guards(response_id, caller, exchange)
    reply, name = await kept.ask(response_id, _call(request, response_id, exchange.request_id), owner)
    headers = header_rules.downstream(reply.headers)
    if any(name == b"content-type" and value.startswith(_EVENTS) for name, value in headers):
        return _Relayed(reply, header_rules.unbuffered(headers), guards, name)
    try:
        body = await whole(reply)
    finally:
        await reply.aclose()
    if reply.status in CLIENT_ERRORS and not header_rules.is_compressed(headers):
        normalized = _ENDPOINT.normalized(reply.status, body)
        if normalized is not body:
            body, headers = normalized, header_rules.of_another_body(headers, JSON)
    for guard in guards:
        attempt = Attempt(reply, reply.status, headers, body, None, None)
        await guard.answer(attempt)
        headers, body = attempt.headers, attempt.first
    if name is not None and reply.status == _OK and header_rules.is_json(headers):
        body = name.whole(body)
    response = Response(body, reply.status)
    response.raw_headers += headers
    return response


class _Relayed(StreamingResponse):
    """Stream of the events of a response that a worker is still generating."""

    def __init__(self, reply: Reply, headers: Headers, guards: Sequence[Guard], name: AnswerName | None) -> None:
        super().__init__(_renamed(_guarded(_events(reply), guards), name), reply.status)
        self._reply = reply
        self.raw_headers += headers
        self.ended: Callable[[], None] | None = None
        """Function to call when no more events will be passed on, or None."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self.ended is not None:
                self.ended()
            await self._reply.aclose()  # not in the iterator: of a caller who left early it is never begun


async def _events(reply: Reply) -> AsyncIterator[bytes]:
    observer = _ENDPOINT.observer(strip_usage=False)
    try:
        while data := await reply.read():
            yield observer.feed(data)
        yield observer.finish()
    except UpstreamError as error:
        event = _ENDPOINT.error_event(error, sequence_number=observer.next_sequence_number)
        yield b"\n\n" + event if observer.inside_event else event


async def _guarded(events: AsyncIterator[bytes], guards: Sequence[Guard]) -> AsyncIterator[bytes]:
    """Yield *events* after the guardrails have checked them."""
    async for event in events:
        data = event
        for guard in guards:
            data = guard.passed(data)
            if guard.blocked is not None:
                yield data
                return
        if data:
            yield data
    data = b""
    for guard in guards:
        data = await guard.finish(data)
        if guard.blocked is not None:
            break
    if data:
        yield data


async def _renamed(events: AsyncIterator[bytes], name: AnswerName | None) -> AsyncIterator[bytes]:
    """Yield *events* with the model name replaced by the name that the caller used."""
    async for data in events:
        yield data if name is None else name.events(data)


def _call(request: Request, response_id: str, request_id: bytes) -> Call:
    """Return the request to send to the worker. The request has no body.

    The path is rebuilt from the response ID, because encoded characters in it could address a different path on the
    worker.
    """
    template: str = request.scope["route"].path
    path, query = template.format(response_id=response_id).encode("ascii"), request.scope["query_string"]
    return Call(
        method=request.method.encode("ascii"),
        path=path + b"?" + query if query else path,
        headers=header_rules.upstream(request.headers.raw, request_id, JSON),
        body=b"",
        streams=False,
        model="",
    )
