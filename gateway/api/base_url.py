"""Responses for `/` and `/v1`, for people who open the base URL in a browser or configure a wrong base URL."""

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter

from gateway.protocol.endpoints.table import ENDPOINTS

router = APIRouter(include_in_schema=False)


@router.get("/")
@router.get("/v1")
async def base_url() -> dict[str, Any]:
    """Return public information about the gateway. Models and keys are not listed."""
    return {
        "message": (
            "This is Warmgate, a gateway with OpenAI's API. The base URL for clients is this address with /v1. See "
            "endpoints for the paths."
        ),
        "base_url": "/v1",
        "endpoints": [*(f"POST {path}" for path in ENDPOINTS), "GET /v1/models"],
        "name": "Warmgate",
        "version": version("warmgate"),
        "links": {"api": "/docs", "openapi": "/openapi.json", "models": "/v1/models", "health": "/readyz"},
    }
