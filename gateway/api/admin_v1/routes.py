"""`/admin/v1/routes`: list the routes with their weights, and set weights on all gateways that share the store.

Weights that are set here survive restarts and reloads. They end when the weights of the route in the settings change,
because the settings are then newer.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import Who, needs
from gateway.api.admin_v1 import paging
from gateway.api.admin_v1.bodies import RouteWeightsBody
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.paging import Listed, listing
from gateway.api.admin_v1.parts import AdminGateway, GatewayOfApp, PartsOfApp
from gateway.models.routes.route import Route
from gateway.protocol.errors import InvalidField, UnknownEntity
from gateway.tenancy.teams.route_weights import RouteWeights
from gateway.tenancy.teams.team_store import DeleteRoute, PutRoute

router = APIRouter(prefix="/admin/v1/routes", tags=["gateway"])

Json = dict[str, Any]


class RouteVariantResponse(BaseModel):
    model: str
    weight: float = Field(description="weight in use, relative to the other models of the route")
    configured_weight: float = Field(description="weight in the settings")
    share: float = Field(description="target share, from 0 to 1, of requests that match no rule")


class RouteRuleResponse(BaseModel):
    name: str
    model: str


class WeightedRouteResponse(BaseModel):
    object: Literal["route"]
    name: str
    sticky: str = Field(description="callers that always get the same model: none, key, user or session")
    source: Literal["settings", "api"] = Field(description="source of the weights in use")
    variants: list[RouteVariantResponse]
    rules: list[RouteRuleResponse]


class RouteQuery(paging.Query):
    route: str = Field(description="name of the route in the settings")


@router.get(
    "",
    summary="List the routes with the weights in use and those in the settings",
    response_model=Listed[WeightedRouteResponse],
    dependencies=[Depends(needs("viewer"))],
)
async def list_routes(gateway: GatewayOfApp) -> Response:
    routes = gateway.models.routes
    return JSONResponse(listing([_response(route) for route in ([] if routes is None else routes)], None))


@router.put(
    "/weights",
    summary="Set the weights of a route, on all gateways that share the store",
    description="The weights replace those in the settings until they are removed, or until the weights of the route "
    "in the settings change. They survive reloads, and restarts if a store is configured.",
    response_model=WeightedRouteResponse,
    openapi_extra=takes(RouteWeightsBody),
    dependencies=[Depends(needs("operator"))],
)
async def set_weights(
    who: Who,
    parts: PartsOfApp,
    gateway: GatewayOfApp,
    wanted: Annotated[RouteWeightsBody, Depends(body(RouteWeightsBody))],
) -> Response:
    route = _route(gateway, wanted.route)
    _check_weights(route, wanted.weights)
    before = _state(route)
    weights = {model: wanted.weights[model] for model in route.configured_weights}
    stored = RouteWeights(route.name, weights, dict(route.configured_weights), changed_at=parts.wall_clock())
    entry = parts.audit(who, "update", "route", route.name, before=before, after={"weights": weights, "source": "api"})
    await parts.entities.write(PutRoute(stored), entry)
    return JSONResponse(_response(_route(gateway, route.name)))


@router.delete(
    "/weights",
    summary="Use the weights of a route in the settings again, on all gateways that share the store",
    status_code=204,
    dependencies=[Depends(needs("operator"))],
)
async def remove_weights(
    who: Who, parts: PartsOfApp, gateway: GatewayOfApp, which: Annotated[RouteQuery, Query()]
) -> Response:
    stored = (await parts.entities.look()).routes.get(which.route)
    if stored is None:
        _route(gateway, which.route)
        raise UnknownEntity(f"The route {which.route[:100]!r} uses the weights of the settings", param="route")
    routes = gateway.models.routes
    route = None if routes is None else routes.get(which.route)
    before = {"weights": stored.weights, "source": "api"} if route is None else _state(route)
    after = None if route is None else {"weights": dict(route.configured_weights), "source": "settings"}
    entry = parts.audit(who, "update", "route", which.route, before=before, after=after)
    await parts.entities.write(DeleteRoute(which.route), entry)
    return Response(status_code=204)


def _route(gateway: AdminGateway, name: str) -> Route:
    """Return the route with the configured name *name*.

    Raises:
        UnknownEntity: if there is no such route.
    """
    routes = gateway.models.routes
    route = None if routes is None else routes.get(name)
    if route is None:
        raise UnknownEntity(f"The route {name[:100]!r} is not configured; give its name, not an alias", param="route")
    return route


def _check_weights(route: Route, weights: dict[str, float]) -> None:
    """Check that *weights* contains each model of *route*, and no other model.

    Raises:
        InvalidField: if a model is missing or unknown, or if all weights are 0.
    """
    unknown = [model for model in weights if model not in route.configured_weights]
    if unknown:
        text = f"'weights' names the model {unknown[0][:100]!r}, which is not in the list 'to' of the route."
        raise InvalidField(text, param="weights")
    missing = [model for model in route.configured_weights if model not in weights]
    if missing:
        text = f"'weights' lacks the model {missing[0][:100]!r}. Give a weight for each model of the route, 0 for none."
        raise InvalidField(text, param="weights")
    if not any(weights.values()):
        raise InvalidField("'weights' needs at least one weight above 0.", param="weights")


def _state(route: Route) -> Json:
    """Return the weights of *route* in the form that the audit log shows."""
    return {"weights": dict(route.variants.weights), "source": _source(route)}


def _source(route: Route) -> str:
    return "api" if route.is_reweighed else "settings"


def _response(route: Route) -> Json:
    variants = route.variants
    return {
        "object": "route",
        "name": route.name,
        "sticky": route.sticky,
        "source": _source(route),
        "variants": [
            {
                "model": model,
                "weight": variants.weights[model],
                "configured_weight": configured,
                "share": round(variants.shares.get(model, 0.0), 6),
            }
            for model, configured in route.configured_weights.items()
        ],
        "rules": [{"name": rule.name, "model": rule.model} for rule in route.rules],
    }
