from importlib.metadata import version

from gateway.api.base_url import base_url
from gateway.protocol.endpoints.table import ENDPOINTS


async def test_everything_that_workers_answer_is_named() -> None:
    found = await base_url()

    assert {f"POST {path}" for path in ENDPOINTS} < set(found["endpoints"])
    assert "/v1" == found["base_url"]


async def test_name_version_and_links_are_public() -> None:
    found = await base_url()

    assert "Warmgate" == found["name"]
    assert version("warmgate") == found["version"]
    assert {"api": "/docs", "openapi": "/openapi.json", "models": "/v1/models", "health": "/readyz"} == found["links"]
