"""/admin/v1/index-truth."""

from gateway.protocol.usage import Usage
from tests.gateway.api.admin_v1.administration import administration
from tests.gateway.api.admin_v1.test_cache_map import a_gateway
from tests.gateway.telemetry.caches.examples import Observed
from tests.routing.examples import a_request


async def test_a_viewer_sees_predicted_and_reported_hits() -> None:
    observed = Observed()
    request = a_request("abcdefghijklmnop")
    observed.activity.observe([observed.answered(request, usage=Usage(256, 1, 128), hit_tokens=192.0)])
    observed.activity.end_minute()
    async with administration(gateway=a_gateway(observed)) as admin:
        found = (await admin.ask("GET", "/index-truth?limit=1", who="vi")).json()
    (worker,) = found["workers"]
    minute, current = worker["minutes"]

    assert ("tiny", "a", "a", "predicted") == (found["model"], found["next"], worker["worker"], worker["source"])
    assert (1000.0, 192, 128, 0.6667) == (
        minute["ended_at"],
        minute["predicted_tokens"],
        minute["reported_tokens"],
        minute["accuracy"],
    )
    assert (None, 0) == (current["ended_at"], current["requests"])


async def test_an_unknown_model_is_an_error() -> None:
    async with administration(gateway=a_gateway(Observed())) as admin:
        assert 404 == (await admin.ask("GET", "/index-truth?model=x", who="vi")).status_code


async def test_it_is_described() -> None:
    """With the type of every field."""
    async with administration(gateway=a_gateway(Observed())) as admin:
        description = await admin.get("/openapi.json")

    assert "/admin/v1/index-truth" in description["paths"]
    assert "rebuilds" in description["components"]["schemas"]["TruthMinute"]["properties"]
