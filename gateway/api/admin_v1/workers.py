"""`/admin/v1/workers/drain` and `undrain`: stop and resume the sending of this gateway's requests to a worker."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from msgspec import UNSET
from pydantic import BaseModel

from gateway.api.admin_access import AdminKey, Who, needs
from gateway.api.admin_v1.bodies import DrainBody, WorkerBody
from gateway.api.admin_v1.claims import IdempotencyKey, claim_of
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.parts import GatewayOfApp, Parts, PartsOfApp
from gateway.api.admin_v1.worker_states import drain as drain_worker
from gateway.api.admin_v1.worker_states import undrain as undrain_worker
from gateway.tenancy.ledger.audit import Action
from gateway.workers.draining import Word

router = APIRouter(prefix="/admin/v1/workers", tags=["gateway"])

Drained = Annotated[DrainBody, Depends(body(DrainBody))]
Undrained = Annotated[WorkerBody, Depends(body(WorkerBody))]


class WorkerResponse(BaseModel):
    model: str
    worker: str
    url: str
    tier: int
    role: str
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


class Workers(BaseModel):
    workers: list[WorkerResponse]


@router.post(
    "/drain",
    summary="Drain a worker: send the worker no new requests, and move long streams to other workers",
    response_model=Workers,
    openapi_extra=takes(DrainBody),
    dependencies=[Depends(needs("operator"))],
)
async def drain(
    who: Who, parts: PartsOfApp, gateway: GatewayOfApp, wanted: Drained, idempotency_key: IdempotencyKey = None
) -> Response:
    async def act() -> Response:
        after_s = wanted.hand_over_after_s if "hand_over_after_s" in wanted.model_fields_set else UNSET
        shown = drain_worker(gateway.models, gateway.draining, wanted.worker, wanted.model, hand_over_after_s=after_s)
        return await _noted(who, parts, "drain", wanted.worker, shown)

    claim = claim_of(idempotency_key, admin=who.id, route="workers/drain", body=wanted, makes=wanted.worker)
    return await parts.answers.once(claim, act)


@router.post(
    "/undrain",
    summary="Stop draining a worker, and send requests to the worker again",
    response_model=Workers,
    openapi_extra=takes(WorkerBody),
    dependencies=[Depends(needs("operator"))],
)
async def undrain(
    who: Who, parts: PartsOfApp, gateway: GatewayOfApp, wanted: Undrained, idempotency_key: IdempotencyKey = None
) -> Response:
    async def act() -> Response:
        shown = undrain_worker(gateway.models, gateway.draining, wanted.worker, wanted.model)
        return await _noted(who, parts, "undrain", wanted.worker, shown)

    claim = claim_of(idempotency_key, admin=who.id, route="workers/undrain", body=wanted, makes=wanted.worker)
    return await parts.answers.once(claim, act)


async def _noted(who: AdminKey, parts: Parts, action: Action, worker: str, shown: list[dict[str, Any]]) -> Response:
    models: dict[str, Any] = {"models": [each["model"] for each in shown]}
    await parts.note(parts.audit(who, action, "worker", worker, after=models))
    return JSONResponse({"workers": shown})
