"""`/admin/v1/models`: what is served here, what it costs, and by whom it is answered."""

from typing import Any, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_v1.access import needs
from gateway.api.admin_v1.paging import Listed, listing
from gateway.api.admin_v1.parts import AdminGateway, GatewayOfApp
from gateway.api.admin_v1.workers import WorkerCard
from gateway.api.workers import cards_of
from gateway.settings import ModelSettings

router = APIRouter(prefix="/admin/v1/models", tags=["gateway"], dependencies=[Depends(needs("viewer"))])


class PriceCard(BaseModel):
    """US dollars, per million tokens or per hour of a worker."""

    input_usd: float
    cached_input_usd: float
    output_usd: float
    gpu_hour_usd: float | None = Field(description="null: it is priced by tokens")


class RouteCard(BaseModel):
    name: str
    share: float = Field(description="of its requests that no rule decides, which this model is to have; 0: none")
    rules: list[str] = Field(description="its rules that lead to this model")


class ModelCard(BaseModel):
    object: Literal["model"]
    name: str
    aliases: list[str]
    upstream_model: str
    adapter_of: str | None
    strategy: str
    routes: list[RouteCard] = Field(description="names that stand for this model among others")
    price: PriceCard
    max_output_tokens: int | None
    bedrock: str | None = Field(description="the model there that answers when no worker can; null: none does")
    fallbacks: list[str] = Field(description="ids of all that answer when no worker can, in this order")
    not_ready: str | None = Field(description="why nobody could answer at present; null: somebody could")
    in_flight: int
    workers: list[WorkerCard]


@router.get("", summary="The models, in the order of the settings", response_model=Listed[ModelCard])
async def list_models(gateway: GatewayOfApp) -> Response:
    return JSONResponse(listing([_card(model, gateway) for model in gateway.settings().models], None))


def _card(settings: ModelSettings, gateway: AdminGateway) -> dict[str, Any]:
    price = settings.price
    model = gateway.models.get(settings.name)
    return {
        "object": "model",
        "name": settings.name,
        "aliases": list(settings.aliases),
        "upstream_model": settings.upstream_model,
        "adapter_of": settings.adapter_base,
        "strategy": settings.strategy,
        "routes": _routes(settings.name, gateway),
        "price": {
            "input_usd": price.input_usd,
            "cached_input_usd": price.input_usd if price.cached_input_usd is None else price.cached_input_usd,
            "output_usd": price.output_usd,
            "gpu_hour_usd": price.gpu_hour_usd,
        },
        "max_output_tokens": settings.max_output_tokens,
        "bedrock": None if settings.bedrock is None else settings.bedrock.model_id,
        "fallbacks": [] if model is None else list(model.cascade.ids),
        "not_ready": "it is not in force yet" if model is None else model.why_not_ready(),
        "in_flight": 0 if model is None else model.in_flight,
        "workers": [] if model is None else list(cards_of(model, gateway.draining)),
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
