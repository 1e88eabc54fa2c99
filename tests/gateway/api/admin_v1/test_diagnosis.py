"""/admin/v1/diagnosis."""

import msgspec

from gateway.api.admin_v1.gateway_facts import GatewayFacts, ModelFacts, WorkerFacts
from gateway.api.admin_v1.parts import AdminGateway
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.administration import administration
from tests.gateway.examples import a_draining, a_model, the_models

FACTS = GatewayFacts(time=1.5, models=(ModelFacts(name="tiny", strategy="kv_aware", workers=(WorkerFacts(id="a"),)),))


def a_gateway() -> AdminGateway:
    models = the_models(a_model(Answers(), name="tiny"))
    return AdminGateway(models, tuple, draining=a_draining(models), facts=lambda: FACTS)


async def test_a_viewer_gets_the_facts() -> None:
    """Those from which the command makes its findings."""
    async with administration(gateway=a_gateway()) as admin:
        answer = await admin.ask("GET", "/diagnosis", who="vi")

    assert "application/json" == answer.headers["content-type"]
    assert msgspec.json.decode(answer.content, type=GatewayFacts) == FACTS


async def test_without_a_key_there_are_no_facts() -> None:
    async with administration(gateway=a_gateway()) as admin, admin.client(None) as client:
        assert 401 == (await client.get("/admin/v1/diagnosis")).status_code


async def test_they_are_described() -> None:
    """With the type of every field."""
    async with administration(gateway=a_gateway()) as admin:
        description = await admin.get("/openapi.json")

    assert "/admin/v1/diagnosis" in description["paths"]
    assert "hit_accuracy" in description["components"]["schemas"]["WorkerFacts"]["properties"]


async def test_a_viewer_gets_the_findings() -> None:
    """Those that the command prints."""
    facts = GatewayFacts(models=(ModelFacts(name="tiny", strategy="kv_aware", not_ready="it has no workers"),))
    models = the_models(a_model(Answers(), name="tiny"))
    gateway = AdminGateway(models, tuple, draining=a_draining(models), facts=lambda: facts)
    async with administration(gateway=gateway) as admin:
        (finding,) = (await admin.get("/diagnosis/findings"))["data"]

    assert ("error", "model-not-ready", "tiny", None) == tuple(
        finding[name] for name in ("severity", "code", "model", "worker")
    )
    assert "The model cannot answer requests: it has no workers." == finding["text"]
