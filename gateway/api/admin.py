"""`/warmgate/workers`: what an operator sees of the workers, and draining them."""

import re
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from gateway.api.admin_access import require_admin
from gateway.api.workers import set_draining, worker_cards
from gateway.errors import InvalidField, MalformedBody
from gateway.incoming import JSON, CallerGone, Incoming
from gateway.models import Models

MOST_BYTES = 16 * 1024
"""Of a body; it holds two names."""

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["worker"],
                    "properties": {"worker": {"type": "string"}, "model": {"type": "string"}},
                    "additionalProperties": False,
                }
            }
        },
    }
}

router = APIRouter(prefix="/warmgate/workers", tags=["admin"], dependencies=[Depends(require_admin)])


@router.get("", summary="Every worker and its state")
async def list_workers(request: Request) -> dict[str, Any]:
    return {"workers": worker_cards(_models(request))}


@router.post("/drain", summary="Send no more requests to a worker; those that it has go on", openapi_extra=_BODY)
async def drain(request: Request) -> Response:
    return await _set_draining(request, draining=True)


@router.post("/undrain", summary="Send requests to a worker again", openapi_extra=_BODY)
async def undrain(request: Request) -> Response:
    return await _set_draining(request, draining=False)


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which worker is meant."""

    worker: str
    model: str | None = None
    """None: of every model that it serves."""


async def _set_draining(request: Request, *, draining: bool) -> Response:
    try:
        body = await Incoming(request.scope, request.receive).body(JSON, most_bytes=MOST_BYTES)
    except CallerGone:
        return Response()  # for nobody
    choice = _parse(body)
    cards = set_draining(_models(request), choice.worker, choice.model, draining=draining)
    return JSONResponse({"workers": cards})


def _parse(body: bytes) -> Choice:
    try:
        return msgspec.json.decode(body, type=Choice)
    except msgspec.ValidationError as fault:
        named = re.search(r"field `(\w+)`|`\$\.(\w+)`", str(fault))
        param = named and (named[1] or named[2])
        raise InvalidField(f"The body is not as it should be: {fault}", param=param) from None
    except msgspec.DecodeError as fault:
        raise MalformedBody(f"The body is not JSON: {fault}") from None


def _models(request: Request) -> Models:
    models: Models = request.app.state.models
    return models
