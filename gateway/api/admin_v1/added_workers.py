"""`/admin/v1/workers`: list all workers with their source, and add or remove workers of a model.

Added workers are saved in the store and used by all gateways that share it.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import AdminKey, Who, needs
from gateway.api.admin_v1 import paging
from gateway.api.admin_v1.bodies import NewWorkerBody
from gateway.api.admin_v1.claims import IdempotencyKey, claim_of
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.parts import Parts, PartsOfApp
from gateway.api.admin_v1.repetition import REPLAYED, made_once
from gateway.api.admin_v1.response_models import Json
from gateway.api.admin_v1.worker_states import worker_states
from gateway.api.admin_v1.workers import WorkerResponse
from gateway.protocol.errors import StoreUnavailable
from gateway.protocol.worker_address import endpoint, id_of_address
from gateway.tenancy.teams.added_worker import AddedWorker, name_of
from gateway.tenancy.teams.team_store import DeleteWorker, PutWorker
from gateway.workers.added_workers import KnownWorkers, Origin, admission, check_addition, not_removable

router = APIRouter(prefix="/admin/v1/workers", tags=["gateway"])

PENDING, UNKNOWN = "pending", "unknown"
"""States of a worker: pending if the gateway does not use it yet, and unknown if no gateway was asked."""


class ListedWorkerResponse(WorkerResponse):
    source: Origin = Field(
        description="source of the worker; workers with the source api were added by this API and can be removed"
    )
    reason: str | None = Field(description="reason why an added worker is not in use; null if the worker is in use")


class ListedWorkers(BaseModel):
    workers: list[ListedWorkerResponse]


class Removal(paging.Query):
    model: str = Field(description="model that the worker was added to")
    worker: str = Field(description="id of the worker")


@router.get(
    "",
    summary="List all workers with the source and state of each worker",
    response_model=ListedWorkers,
    dependencies=[Depends(needs("viewer"))],
)
async def list_workers(parts: PartsOfApp) -> Response:
    with suppress(StoreUnavailable):  # then what was read last has to do
        await parts.entities.look()
    return JSONResponse({"workers": _worker_responses(parts)})


@router.post(
    "",
    summary="Add a worker to a model, on all gateways that share the store",
    description="A request repeated with the same `idempotency-key` within 24 hours adds nothing and returns the "
    "same worker.",
    status_code=201,
    response_model=ListedWorkers,
    openapi_extra=takes(NewWorkerBody),
    dependencies=[Depends(needs("owner"))],
)
async def add(
    who: Who,
    parts: PartsOfApp,
    wanted: Annotated[NewWorkerBody, Depends(body(NewWorkerBody))],
    idempotency_key: IdempotencyKey = None,
) -> Response:
    worker_id = wanted.id or id_of_address(wanted.url)
    worker = AddedWorker(wanted.model, wanted.url, worker_id, created_at=parts.wall_clock())

    async def exists(name: str) -> bool:
        return name_of(worker.model, name) in (await parts.entities.look()).workers

    async def make(_name: str, _seed: str) -> None:
        await _add(parts, who, worker)

    headers: dict[str, str] = {}
    claim = claim_of(idempotency_key, admin=who.id, route="workers", body=wanted, makes=worker.id)
    if claim is None:
        await _add(parts, who, worker)
    elif (await made_once(claim, parts.claims, exists=exists, make=make)).repeats:
        headers = REPLAYED
    own = [each for each in _worker_responses(parts) if (each["model"], each["worker"]) == (worker.model, worker.id)]
    return JSONResponse({"workers": own}, 201, headers)


@router.delete(
    "",
    summary="Remove an added worker from all gateways that share the store; requests on the worker continue",
    status_code=204,
    dependencies=[Depends(needs("owner"))],
)
async def remove(who: Who, parts: PartsOfApp, which: Annotated[Removal, Query()]) -> Response:
    worker = (await parts.entities.look()).workers.get(name_of(which.model, which.worker))
    if worker is None:
        raise not_removable(_known(parts), which.model, which.worker)
    entry = parts.audit(who, "delete", "worker", worker.id, before=_shown(worker))
    await parts.entities.write(DeleteWorker(worker.model, worker.id), entry)
    return Response(status_code=204)


async def _add(parts: Parts, who: AdminKey, worker: AddedWorker) -> None:
    """Save the new *worker* in the store.

    Raises:
        UnknownModel, Conflict, StoreUnavailable: under the conditions of `check_addition` and `TeamStore.write`.
    """
    directory = await parts.entities.look()
    check_addition(_known(parts), directory.workers, worker)
    entry = parts.audit(who, "create", "worker", worker.id, after=_shown(worker))
    await parts.entities.write(PutWorker(worker), entry)


def _shown(worker: AddedWorker) -> Json:
    """Return *worker* in the form that the audit log shows."""
    return {"model": worker.model, "url": worker.url}


def _known(parts: Parts) -> KnownWorkers:
    assert parts.known_workers is not None, "the routes exist only with known workers"
    return parts.known_workers()


def _worker_responses(parts: Parts) -> list[Json]:
    """Return the workers in use in configured order, followed by added workers that are not in use."""
    known, added = _known(parts), parts.entities.directory.workers
    origins = known.origins()
    shown = [
        # One that is neither listed nor found was added, or leaves at this moment.
        {**each, "source": origins.get((each["model"], endpoint(each["url"])), "api"), "reason": None}
        for each in _in_use(parts, known)
    ]
    in_use = {(each["model"], each["worker"]) for each in shown}
    left_out = admission(known, added.values()).left_out
    for name in sorted(added):
        worker, why = added[name], left_out.get(name)
        if why is not None:
            left = _response(worker.model, worker.id, worker.url, state=why.state, source="api", reason=why.reason)
            shown.append(left)
        elif (worker.model, worker.id) not in in_use:
            state = UNKNOWN if parts.gateway is None else PENDING
            shown.append(_response(worker.model, worker.id, worker.url, state=state, source="api"))
    return shown


def _in_use(parts: Parts, known: KnownWorkers) -> Iterator[Json]:
    if parts.gateway is not None:
        yield from worker_states(parts.gateway.models, parts.gateway.draining)
        return
    for model in known.models:
        for worker in model.workers:
            yield _response(model.name, worker.id, worker.url, state=UNKNOWN, source="settings")


def _response(model: str, worker_id: str, url: str, *, state: str, source: Origin, reason: str | None = None) -> Json:
    """Return the response for a worker whose health this gateway does not know."""
    return {
        "model": model,
        "worker": worker_id,
        "url": url,
        "tier": 0,
        "role": "both",
        "state": state,
        "up": False,
        "asleep": False,
        "draining": False,
        "draining_by": [],
        "drained": False,
        "hand_over_in_s": None,
        "breaker_open": False,
        "in_flight": 0,
        "held_blocks": 0,
        "source": source,
        "reason": reason,
    }
