"""`/warmgate/workers`: what an operator sees of the workers, and draining them."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from cache_index import WorkerId
from gateway.api.admin_access import require_admin
from gateway.errors import InvalidField, MalformedBody, UnknownModel, UnknownWorker
from gateway.incoming import JSON, CallerGone, Incoming
from gateway.models import Model, Models

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
    return {"workers": [card for model in _models(request) for card in _cards(model)]}


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
    worker = WorkerId(choice.worker)
    chosen = [model for model in _chosen(_models(request), choice.model) if worker in model.workers]
    if not chosen:
        where = "" if choice.model is None else f" of the model {choice.model[:100]!r}"
        raise UnknownWorker(f"There is no worker {choice.worker[:200]!r}{where}", param="worker")
    for model in chosen:
        model.set_draining(worker, draining=draining)
    return JSONResponse({"workers": [card for model in chosen for card in _cards(model) if card["worker"] == worker]})


def _parse(body: bytes) -> Choice:
    try:
        return msgspec.json.decode(body, type=Choice)
    except msgspec.ValidationError as fault:
        named = re.search(r"field `(\w+)`|`\$\.(\w+)`", str(fault))
        param = named and (named[1] or named[2])
        raise InvalidField(f"The body is not as it should be: {fault}", param=param) from None
    except msgspec.DecodeError as fault:
        raise MalformedBody(f"The body is not JSON: {fault}") from None


def _chosen(models: Models, name: str | None) -> list[Model]:
    if name is None:
        return list(models)
    model = models.get(name)
    if model is None:
        raise UnknownModel(f"The model {name[:100]!r} is not configured; aliases do not count here", param="model")
    return [model]


def _cards(model: Model) -> Iterator[dict[str, Any]]:
    """One entry for each worker of *model*."""
    for worker in model.fleet:
        is_drained = worker.is_draining and worker.in_flight == 0
        state = worker.why_not_ready or "up"
        yield {
            "model": model.name,
            "worker": worker.id,
            "url": model.workers[worker.id].url,
            "state": "drained" if state == "draining" and is_drained else state,
            "up": worker.is_up,
            "asleep": worker.is_asleep,
            "draining": worker.is_draining,
            "drained": is_drained,
            "breaker_open": worker.breaker.is_open,
            "in_flight": worker.in_flight,
            "held_blocks": model.held_blocks(worker.id),
        }


def _models(request: Request) -> Models:
    models: Models = request.app.state.models
    return models
