"""`/admin/v1/cache-map`: which worker holds how much of the prefixes that requests ask for most often."""

from dataclasses import replace
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import Field

from gateway.api.admin_access import needs
from gateway.api.admin_v1.named_model import ModelWorkersQuery, named_model, names, workers_of
from gateway.api.admin_v1.parts import CachesOfApp, GatewayOfApp
from gateway.telemetry.caches.cache_map import CacheMap

router = APIRouter(prefix="/admin/v1/cache-map", tags=["gateway"])


class CacheMapQuery(ModelWorkersQuery):
    prefixes: Annotated[int, Field(ge=1, le=100)] = Field(
        default=20, description="maximum number of prefixes to return, those for which most tokens are asked first"
    )


@router.get(
    "",
    summary="Show which worker holds how much of the most frequent prefixes, as far as this gateway knows",
    response_model=CacheMap,
    dependencies=[Depends(needs("viewer"))],
)
async def show_cache_map(
    gateway: GatewayOfApp, caches: CachesOfApp, query: Annotated[CacheMapQuery, Query()]
) -> Response:
    model = named_model(gateway.models, query.model)
    workers, after = workers_of(model, query)
    found = replace(
        await caches.maps.of(model, workers, prefixes=query.prefixes), next=after, models=names(gateway.models)
    )
    return Response(msgspec.json.encode(found), media_type="application/json")
