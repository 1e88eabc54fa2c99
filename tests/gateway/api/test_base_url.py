from gateway.api.base_url import base_url
from gateway.protocol.endpoints.table import ENDPOINTS


async def test_everything_that_workers_answer_is_named() -> None:
    found = await base_url()

    assert {f"POST {path}" for path in ENDPOINTS} < set(found["endpoints"])
    assert "/v1" == found["base_url"]
