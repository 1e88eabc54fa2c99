"""The request in the form in which workers receive it."""

from collections.abc import Coroutine
from functools import partial
from typing import Any

from gateway.backends.backend import Call
from gateway.backends.delivery import Delivery
from gateway.models.engine_field_rules import PRIORITY_FIELD
from gateway.models.model import Model
from gateway.protocol.body import Body
from gateway.protocol.endpoints.endpoint import JSON, Endpoint
from gateway.protocol.session_identity import ENGINE_HEADER, engine_session
from gateway.protocol.splice import added, spliced
from gateway.proxy.admission import Admission
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.guard import Guard
from gateway.proxy.incoming import Incoming
from gateway.tenancy.teams.caller import Caller
from routing.request import Request


def call_of(  # noqa: PLR0917  # in the order in which they are known
    exchange: Exchange,
    endpoint: Endpoint,
    incoming: Incoming,
    model: Model,
    raw: bytes,
    body: Body,
    request: Request,
    guard: Guard | None,
) -> Call:
    """Return the call to a worker of *model* for the request body *raw*, which was parsed into *body*."""
    headers = incoming.upstream_headers(exchange.request_id, endpoint.media)
    if request.session is not None:
        exchange.session = engine_session(request.session, request.team)
        headers.append((ENGINE_HEADER, exchange.session))
    shown = model.engine_fields.for_workers(body)
    if body.streams and not exchange.streams:
        shown = shown.changed(asks_usage=True)  # the answer does not pass through the gateway, which cannot strip it
    return Call(
        method=b"POST",
        path=incoming.target,
        headers=headers,
        body=endpoint.upstream_body(raw, incoming.content_type, shown, model.upstream_name),
        streams=exchange.streams,
        model=body.model,
        guardrail=None if guard is None else guard.native,
    )


async def begun(  # noqa: PLR0917  # in the order in which they are known
    delivery: Delivery,
    exchange: Exchange,
    incoming: Incoming,
    caller: Caller | None,
    admission: Admission,
    receiving: Coroutine[Any, Any, bytes],
) -> bytes:
    """Return the result of *receiving*, the body of the request. Before that, let *delivery* send the request to the
    worker of its session if the headers decide.
    """
    call = Call(b"POST", incoming.target, incoming.upstream_headers(exchange.request_id, JSON), b"", False, "")
    team = "" if caller is None else caller.team.name
    try:
        await delivery.begin(call, incoming.text_of, team, partial(admission.check_model, caller))
    except BaseException:
        receiving.close()  # nothing will await it
        raise
    return await receiving


def prioritized(call: Call, endpoint: Endpoint, model: Model, body: Body, request: Request) -> Call:
    """Return *call* with the priority of *request* for engines that have priorities, or else *call* unchanged.

    Fallbacks must not receive the returned call, because they do not know the field. Forms have no priority.
    """
    priority = model.engine_fields.engine_priority(request.priority)
    if priority is None or endpoint.media != JSON:
        return call
    changes = {PRIORITY_FIELD: b"%d" % priority}
    is_present = PRIORITY_FIELD in body.engine_fields
    return call.changed(body=spliced(call.body, changes) if is_present else added(call.body, changes))
