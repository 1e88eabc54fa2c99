"""`/admin/v1/workers`: the workers of this gateway, and draining them."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from gateway.api.admin_v1.access import AdminKey, Who, needs
from gateway.api.admin_v1.bodies import WorkerBody
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.parts import AdminGateway, GatewayOfApp, Parts, PartsOfApp
from gateway.api.workers import set_draining, worker_cards
from gateway.ledger.audit import Action

router = APIRouter(prefix="/admin/v1/workers", tags=["gateway"])

Wanted = Annotated[WorkerBody, Depends(body(WorkerBody))]


class WorkerCard(BaseModel):
    model: str
    worker: str
    url: str
    state: str
    up: bool
    asleep: bool
    draining: bool
    drained: bool
    breaker_open: bool
    in_flight: int
    held_blocks: int


class Workers(BaseModel):
    workers: list[WorkerCard]


@router.get("", summary="Every worker and its state", response_model=Workers, dependencies=[Depends(needs("viewer"))])
async def list_workers(gateway: GatewayOfApp) -> Response:
    return JSONResponse({"workers": worker_cards(gateway.models)})


@router.post(
    "/drain",
    summary="Send no more requests from this gateway to a worker; those that it has go on",
    response_model=Workers,
    openapi_extra=takes(WorkerBody),
    dependencies=[Depends(needs("operator"))],
)
async def drain(who: Who, parts: PartsOfApp, gateway: GatewayOfApp, wanted: Wanted) -> Response:
    return await _set_draining(who, parts, gateway, wanted, draining=True)


@router.post(
    "/undrain",
    summary="Send requests to a worker again",
    response_model=Workers,
    openapi_extra=takes(WorkerBody),
    dependencies=[Depends(needs("operator"))],
)
async def undrain(who: Who, parts: PartsOfApp, gateway: GatewayOfApp, wanted: Wanted) -> Response:
    return await _set_draining(who, parts, gateway, wanted, draining=False)


async def _set_draining(
    who: AdminKey, parts: Parts, gateway: AdminGateway, wanted: WorkerBody, *, draining: bool
) -> Response:
    cards = set_draining(gateway.models, wanted.worker, wanted.model, draining=draining)
    action: Action = "drain" if draining else "undrain"
    models: dict[str, Any] = {"models": [card["model"] for card in cards]}
    await parts.note(parts.audit(who, action, "worker", wanted.worker, after=models))
    return JSONResponse({"workers": cards})
