"""`/warmgate/workers`: what an operator sees of the workers, and draining them."""

import re
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from gateway.api.admin_access import require_admin
from gateway.api.workers import drain as drain_worker
from gateway.api.workers import undrain as undrain_worker
from gateway.api.workers import worker_cards
from gateway.draining import Draining
from gateway.errors import InvalidField, MalformedBody
from gateway.incoming import JSON, CallerGone, Incoming
from gateway.models import Models

MOST_BYTES = 16 * 1024
"""Of a body; it holds two names and a number."""


def _taking(**properties: Any) -> dict[str, Any]:
    """The description of a body with a worker, a model, and *properties*."""
    schema = {
        "type": "object",
        "required": ["worker"],
        "properties": {"worker": {"type": "string"}, "model": {"type": ["string", "null"]}, **properties},
        "additionalProperties": False,
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


C = TypeVar("C", bound="Choice")

router = APIRouter(prefix="/warmgate/workers", tags=["admin"], dependencies=[Depends(require_admin)])


@router.get("", summary="Every worker and its state")
async def list_workers(request: Request) -> dict[str, Any]:
    return {"workers": worker_cards(_models(request), _draining(request))}


@router.post(
    "/drain",
    summary="Send no more requests to a worker; those that it has go on, long streams elsewhere after a while",
    openapi_extra=_taking(hand_over_after_s={"type": ["number", "null"], "minimum": 0}),
)
async def drain(request: Request) -> Response:
    try:
        wanted = _parse(await _body(request), Drain)
    except CallerGone:
        return Response()  # for nobody
    models, draining = _models(request), _draining(request)
    cards = drain_worker(models, draining, wanted.worker, wanted.model, hand_over_after_s=wanted.hand_over_after_s)
    return JSONResponse({"workers": cards})


@router.post("/undrain", summary="Send requests to a worker again", openapi_extra=_taking())
async def undrain(request: Request) -> Response:
    try:
        choice = _parse(await _body(request), Choice)
    except CallerGone:
        return Response()  # for nobody
    return JSONResponse({"workers": undrain_worker(_models(request), _draining(request), choice.worker, choice.model)})


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which worker is meant."""

    worker: str
    model: str | None = None
    """None: of every model that it serves."""


class Drain(Choice, frozen=True, forbid_unknown_fields=True):
    """Which worker is to drain, and for how long all of its streams may go on there."""

    hand_over_after_s: Annotated[float, msgspec.Meta(ge=0)] | msgspec.UnsetType | None = msgspec.UNSET
    """Seconds; None: they end there, UNSET: as the settings have it."""


async def _body(request: Request) -> bytes:
    return await Incoming(request.scope, request.receive).body(JSON, most_bytes=MOST_BYTES, setting=None)


def _parse(body: bytes, of: type[C]) -> C:
    try:
        return msgspec.json.decode(body, type=of)
    except msgspec.ValidationError as fault:
        named = re.search(r"field `(\w+)`|`\$\.(\w+)`", str(fault))
        param = named and (named[1] or named[2])
        raise InvalidField(f"The body is not as it should be: {fault}", param=param) from None
    except msgspec.DecodeError as fault:
        raise MalformedBody(f"The body is not JSON: {fault}") from None


def _draining(request: Request) -> Draining:
    draining: Draining = request.app.state.draining
    return draining


def _models(request: Request) -> Models:
    models: Models = request.app.state.models
    return models
