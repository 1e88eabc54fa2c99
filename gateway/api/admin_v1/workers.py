"""`/admin/v1/workers`: the workers of this gateway, and draining them."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from msgspec import UNSET
from pydantic import BaseModel, Field

from gateway.api.admin_v1 import paging
from gateway.api.admin_v1.access import AdminKey, Who, needs
from gateway.api.admin_v1.bodies import DrainBody, NewWorkerBody, WorkerBody
from gateway.api.admin_v1.claims import IdempotencyKey, claim_of
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.parts import GatewayOfApp, Parts, PartsOfApp
from gateway.api.workers import drain as drain_worker
from gateway.api.workers import undrain as undrain_worker
from gateway.api.workers import worker_cards
from gateway.draining import Word
from gateway.errors import Conflict
from gateway.ledger.audit import Action
from gateway.settings import WorkerSettings

router = APIRouter(prefix="/admin/v1/workers", tags=["gateway"])

Added = Annotated[NewWorkerBody, Depends(body(NewWorkerBody))]
Drained = Annotated[DrainBody, Depends(body(DrainBody))]
Undrained = Annotated[WorkerBody, Depends(body(WorkerBody))]


class WorkerCard(BaseModel):
    model: str
    worker: str
    url: str
    tier: int
    state: str
    up: bool
    asleep: bool
    draining: bool
    draining_by: list[Word]
    drained: bool
    hand_over_in_s: float | None
    breaker_open: bool
    in_flight: int
    held_blocks: int


class Removal(paging.Query):
    model: str = Field(description="that it was added to")
    worker: str = Field(description="its id")


class Workers(BaseModel):
    workers: list[WorkerCard]


@router.get("", summary="Every worker and its state", response_model=Workers, dependencies=[Depends(needs("viewer"))])
async def list_workers(gateway: GatewayOfApp) -> Response:
    return JSONResponse({"workers": worker_cards(gateway.models, gateway.draining)})


@router.post(
    "",
    summary="Add a worker to a model of this gateway, until it is removed or the gateway restarts",
    status_code=201,
    response_model=Workers,
    openapi_extra=takes(NewWorkerBody),
    dependencies=[Depends(needs("owner"))],
)
async def add(
    who: Who, parts: PartsOfApp, gateway: GatewayOfApp, wanted: Added, idempotency_key: IdempotencyKey = None
) -> Response:
    async def act() -> Response:
        if gateway.add_worker is None:
            raise Conflict("Workers cannot be added to this gateway")
        worker = WorkerSettings.model_validate(wanted.model_dump(include={"url", "id"}, exclude_none=True))
        gateway.add_worker(wanted.model, worker)
        after = {"model": wanted.model, "url": worker.url}
        await parts.note(parts.audit(who, "create", "worker", worker.id, after=after))
        cards = worker_cards(gateway.models, gateway.draining)
        own = [card for card in cards if card["model"] == wanted.model and card["url"] == worker.url]
        return JSONResponse({"workers": own}, 201)

    claim = claim_of(idempotency_key, admin=who.id, route="workers", body=wanted, makes=wanted.url)
    return await parts.answers.once(claim, act)


@router.delete(
    "",
    summary="Remove a worker that was added; requests that it has go on",
    status_code=204,
    dependencies=[Depends(needs("owner"))],
)
async def remove(who: Who, parts: PartsOfApp, gateway: GatewayOfApp, which: Annotated[Removal, Query()]) -> Response:
    if gateway.remove_worker is None:
        raise Conflict("Workers cannot be removed from this gateway")
    gateway.remove_worker(which.model, which.worker)
    await parts.note(parts.audit(who, "delete", "worker", which.worker, before={"model": which.model}))
    return Response(status_code=204)


@router.post(
    "/drain",
    summary="Send no more requests from this gateway to a worker; those that it has go on, long streams elsewhere",
    response_model=Workers,
    openapi_extra=takes(DrainBody),
    dependencies=[Depends(needs("operator"))],
)
async def drain(
    who: Who, parts: PartsOfApp, gateway: GatewayOfApp, wanted: Drained, idempotency_key: IdempotencyKey = None
) -> Response:
    async def act() -> Response:
        after_s = wanted.hand_over_after_s if "hand_over_after_s" in wanted.model_fields_set else UNSET
        cards = drain_worker(gateway.models, gateway.draining, wanted.worker, wanted.model, hand_over_after_s=after_s)
        return await _noted(who, parts, "drain", wanted.worker, cards)

    claim = claim_of(idempotency_key, admin=who.id, route="workers/drain", body=wanted, makes=wanted.worker)
    return await parts.answers.once(claim, act)


@router.post(
    "/undrain",
    summary="Send requests to a worker again",
    response_model=Workers,
    openapi_extra=takes(WorkerBody),
    dependencies=[Depends(needs("operator"))],
)
async def undrain(
    who: Who, parts: PartsOfApp, gateway: GatewayOfApp, wanted: Undrained, idempotency_key: IdempotencyKey = None
) -> Response:
    async def act() -> Response:
        cards = undrain_worker(gateway.models, gateway.draining, wanted.worker, wanted.model)
        return await _noted(who, parts, "undrain", wanted.worker, cards)

    claim = claim_of(idempotency_key, admin=who.id, route="workers/undrain", body=wanted, makes=wanted.worker)
    return await parts.answers.once(claim, act)


async def _noted(who: AdminKey, parts: Parts, action: Action, worker: str, cards: list[dict[str, Any]]) -> Response:
    models: dict[str, Any] = {"models": [card["model"] for card in cards]}
    await parts.note(parts.audit(who, action, "worker", worker, after=models))
    return JSONResponse({"workers": cards})
