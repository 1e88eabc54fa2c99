"""Gateway with minimal settings, which the page generators inspect. The gateway is never started."""

import asyncio
from functools import cache
from typing import Any

import httpx
from prometheus_client.core import Metric

from gateway.app.application import create_app
from gateway.app.asgi import Gateway
from gateway.settings import build

_ADMIN_KEY = "the-admin-key-of-the-generator"


@cache
def gateway() -> Gateway:
    """Return a gateway with one model and one worker. The worker gets no requests."""
    settings = build(
        {
            "models": [{"name": "tiny", "workers": [{"url": "http://worker.example.com"}]}],
            "admin": {"keys": [{"id": "generator", "secret": _ADMIN_KEY, "role": "viewer"}]},
            "files": {"folder": "files"},
            "store": {"url": "redis://store.example.com"},
        },
        {},
    )
    return create_app(settings)


def families() -> list[Metric]:
    """Return all families of the gateway's metrics."""
    return list(gateway()._api.state.metrics.collect())  # type: ignore[attr-defined]  # noqa: SLF001


def openapi(path: str) -> dict[str, Any]:
    """Return the OpenAPI document that the gateway serves at *path*."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(gateway())
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            return await client.get(path, headers={"authorization": f"Bearer {_ADMIN_KEY}"})

    document: dict[str, Any] = asyncio.run(ask()).raise_for_status().json()
    return document
