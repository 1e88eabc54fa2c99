from gateway.api.base_url import base_url
from gateway.endpoints.table import ENDPOINTS


async def test_everything_that_workers_answer_is_named() -> None:
    """And how to reach it."""
    told = await base_url()

    assert {f"POST {path}" for path in ENDPOINTS} < set(told["endpoints"])
    assert "/v1" == told["base_url"]
