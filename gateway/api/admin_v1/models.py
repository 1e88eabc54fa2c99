"""`/admin/v1/models`: list the served models with their prices and backends."""

from typing import Any, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import needs
from gateway.api.admin_v1.paging import Listed, listing
from gateway.api.admin_v1.parts import AdminGateway, ConfiguredModel, GatewayOfApp
from gateway.api.admin_v1.worker_states import states_of
from gateway.api.admin_v1.workers import WorkerResponse
from gateway.models.model import Model

router = APIRouter(prefix="/admin/v1/models", tags=["gateway"], dependencies=[Depends(needs("viewer"))])


class PriceResponse(BaseModel):
    """Prices in US dollars, either per million tokens or per hour of a worker."""

    input_usd: float
    cached_input_usd: float
    output_usd: float
    gpu_hour_usd: float | None = Field(description="US dollars per hour of a worker; null if tokens have prices")


class RouteResponse(BaseModel):
    name: str
    share: float = Field(description="target share, from 0 to 1, of requests that match no rule")
    rules: list[str] = Field(description="rules of the route that select this model")


class FallbackBudgetResponse(BaseModel):
    usd_per_hour: float | None = Field(description="maximum cost of all fallbacks per hour; null without a limit")
    share: float | None = Field(description="maximum share of requests that fallbacks answer; null without a limit")
    spent_usd: float = Field(description="cost of all fallbacks in the last hour, by this gateway")
    held_usd: float = Field(description="maximum cost of the fallback requests in progress")


class ModelResponse(BaseModel):
    object: Literal["model"]
    name: str
    aliases: list[str]
    upstream_model: str
    adapter_of: str | None
    strategy: str
    routes: list[RouteResponse] = Field(description="routes that include this model")
    price: PriceResponse
    max_output_tokens: int | None
    bedrock: str | None = Field(description="Bedrock model that answers if no worker can, or null")
    fallbacks: list[str] = Field(description="IDs of the backends to try, in order, if no worker can answer")
    fallback_budget: FallbackBudgetResponse | None = Field(description="null if the model has no fallbacks")
    not_ready: str | None = Field(description="reason why no backend can answer now; null if at least one can answer")
    in_flight: int
    workers: list[WorkerResponse]


@router.get("", summary="List the models in configured order", response_model=Listed[ModelResponse])
async def list_models(gateway: GatewayOfApp) -> Response:
    return JSONResponse(listing([_response(model, gateway) for model in gateway.configured()], None))


def _response(configured: ConfiguredModel, gateway: AdminGateway) -> dict[str, Any]:
    model = gateway.models.get(configured.name)
    return {
        "object": "model",
        "name": configured.name,
        "aliases": list(configured.aliases),
        "upstream_model": configured.upstream_model,
        "adapter_of": configured.adapter_of,
        "strategy": configured.strategy,
        "routes": _routes(configured.name, gateway),
        "price": {
            "input_usd": configured.input_usd,
            "cached_input_usd": configured.cached_input_usd,
            "output_usd": configured.output_usd,
            "gpu_hour_usd": configured.gpu_hour_usd,
        },
        "max_output_tokens": configured.max_output_tokens,
        "bedrock": configured.bedrock,
        "fallbacks": [] if model is None else list(model.fallbacks.ids),
        "fallback_budget": None if model is None else _fallback_budget(model, gateway.clock()),
        "not_ready": "the model is not in effect yet" if model is None else model.why_not_ready(),
        "in_flight": 0 if model is None else model.in_flight,
        "workers": [] if model is None else list(states_of(model, gateway.draining)),
    }


def _fallback_budget(model: Model, now: float) -> dict[str, Any] | None:
    fallbacks = model.fallbacks
    if not fallbacks:
        return None
    return {
        "usd_per_hour": fallbacks.limits.usd_per_hour,
        "share": fallbacks.limits.share,
        "spent_usd": round(fallbacks.budget.spent_usd(now), 6),
        "held_usd": round(fallbacks.budget.held_usd, 6),
    }


def _routes(model: str, gateway: AdminGateway) -> list[dict[str, Any]]:
    routes = gateway.models.routes
    return [
        {
            "name": route.name,
            "share": round(route.variants.shares.get(model, 0.0), 6),
            "rules": [rule.name for rule in route.rules if rule.model == model],
        }
        for route in ([] if routes is None else routes.leading_to(model))
    ]
