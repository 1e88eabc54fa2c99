"""`/admin/v1/overview`: return the traffic of this gateway in the last minutes."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import needs
from gateway.api.admin_v1 import paging
from gateway.api.admin_v1.parts import GatewayOfApp
from gateway.telemetry.traffic_history import Interval

NOW_S = 60
"""Seconds that the value `now` covers."""

router = APIRouter(prefix="/admin/v1/overview", tags=["gateway"], dependencies=[Depends(needs("viewer"))])


class Minutes(paging.Query):
    minutes: Annotated[int, Field(ge=1, le=60)] = Field(default=15, description="length of the series in minutes")


class IntervalResponse(BaseModel):
    """Traffic of one interval. Only this gateway's requests count."""

    time: float = Field(description="end of the interval in seconds since 1970")
    seconds: float
    requests: int
    failed: int = Field(description="requests with a status of 500 or higher")
    refused: int = Field(description="requests with a status from 400 to 499")
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    ttft_p50_s: float | None = Field(description="median time to first token of streams; null without streams")
    ttft_p95_s: float | None
    in_flight: int = Field(description="requests in progress at the end of the interval")
    waiting: int = Field(description="requests that waited for a worker at the end of the interval")


class OverviewResponse(BaseModel):
    object: Literal["overview"]
    now: IntervalResponse | None = Field(description="traffic of the last minute; null just after the start")
    series: list[IntervalResponse] = Field(description="at most 60 intervals of equal length, oldest first")


@router.get("", summary="Return the traffic of this gateway in the last minutes", response_model=OverviewResponse)
async def read_overview(gateway: GatewayOfApp, asked: Annotated[Minutes, Query()]) -> Response:
    history = gateway.history
    now = None if history is None else history.last(NOW_S)
    series = [] if history is None else history.intervals(asked.minutes)
    return JSONResponse(
        {"object": "overview", "now": None if now is None else _response(now), "series": list(map(_response, series))}
    )


def _response(each: Interval) -> dict[str, Any]:
    return asdict(each)
