"""`/admin/v1/openapi.json`: complete FastAPI's description of the routes with their bodies, errors and security."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from gateway.api.admin_v1.bodies import (
    CreditBody,
    DrainBody,
    KeyBody,
    KeyState,
    NewWorkerBody,
    RaiseBody,
    RevocationBody,
    RotationBody,
    RouteWeightsBody,
    TeamBody,
    TeamPut,
    TeamRaiseBody,
    TeamState,
    WorkerBody,
)
from gateway.api.admin_v1.what_if import WhatIfBody
from gateway.api.openapi import complete

BODIES = (
    CreditBody,
    DrainBody,
    KeyBody,
    KeyState,
    NewWorkerBody,
    RevocationBody,
    RaiseBody,
    RotationBody,
    RouteWeightsBody,
    TeamBody,
    TeamPut,
    TeamRaiseBody,
    TeamState,
    WhatIfBody,
    WorkerBody,
)

_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "an admin key"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "an admin key"},
}


def describe(api: FastAPI) -> None:
    """Make the application *api* serve its complete OpenAPI description."""

    def openapi() -> dict[str, Any]:
        if api.openapi_schema is None:
            description = complete(get_openapi(title=api.title, version=api.version, routes=api.routes), {})
            _, bodies = models_json_schema(
                [(kind, "validation") for kind in BODIES], ref_template="#/components/schemas/{model}"
            )
            description["components"]["schemas"].update(bodies["$defs"])
            description["components"]["securitySchemes"] = _SECURITY
            description["security"] = [{scheme: []} for scheme in _SECURITY]
            api.openapi_schema = description
        return api.openapi_schema

    api.openapi = openapi  # type: ignore[method-assign]  # the way that FastAPI has for it
