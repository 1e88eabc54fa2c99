"""`/admin/v1/index-truth`: predicted cache hits against the cache hits that engines report, by worker and minute."""

from dataclasses import replace
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from gateway.api.admin_access import needs
from gateway.api.admin_v1.named_model import ModelWorkersQuery, named_model, names, workers_of
from gateway.api.admin_v1.parts import CachesOfApp, GatewayOfApp
from gateway.telemetry.caches.index_truth import IndexTruth

router = APIRouter(prefix="/admin/v1/index-truth", tags=["gateway"])


@router.get(
    "",
    summary="Show how well predicted cache hits of the last hour match the cache hits that engines report",
    response_model=IndexTruth,
    dependencies=[Depends(needs("viewer"))],
)
async def show_index_truth(
    gateway: GatewayOfApp, caches: CachesOfApp, query: Annotated[ModelWorkersQuery, Query()]
) -> Response:
    model = named_model(gateway.models, query.model)
    workers, after = workers_of(model, query)
    found = replace(await caches.truths.of(model, workers), next=after, models=names(gateway.models))
    return Response(msgspec.json.encode(found), media_type="application/json")
