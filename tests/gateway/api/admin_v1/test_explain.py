"""/admin/v1/explain."""

from dataclasses import replace

from gateway.api.admin_v1.parts import AdminGateway
from gateway.api.explain import Explainer
from gateway.models.response_affinity.owners import ResponseOwners
from gateway.protocol.endpoints.table import ENDPOINTS
from tests.bodies import bodies_up_to
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.administration import administration
from tests.gateway.examples import a_draining, a_model, the_models

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}


def an_explaining_gateway() -> AdminGateway:
    """A gateway with the model tiny and the workers a and b."""
    models = the_models(a_model(Answers(), Answers(), name="tiny"))
    explainer = Explainer(
        ENDPOINTS, models, ResponseOwners(most=2), stream_state=lambda _: None, bodies=bodies_up_to(10_000)
    )
    return AdminGateway(models, tuple, draining=a_draining(models), explainer=explainer)


async def test_a_viewer_sees_the_ranking() -> None:
    async with administration(gateway=an_explaining_gateway()) as admin:
        found = (await admin.ask("POST", "/explain", BODY, who="vi")).json()

    assert ("tiny", [("a", 1), ("b", 2)]) == (found["model"], [(w["worker"], w["rank"]) for w in found["workers"]])


async def test_an_unknown_model_or_endpoint_is_an_error() -> None:
    async with administration(gateway=an_explaining_gateway()) as admin:
        answers = [
            await admin.ask("POST", "/explain", {**BODY, "model": "x"}, who="vi"),
            await admin.ask("POST", "/explain?path=/v1/x", BODY, who="vi"),
        ]

    assert [404, 400] == [answer.status_code for answer in answers]


async def test_without_a_key_nothing_is_explained() -> None:
    async with administration(gateway=an_explaining_gateway()) as admin, admin.client(None) as client:
        assert 401 == (await client.post("/admin/v1/explain", json=BODY)).status_code


async def test_without_an_explainer_there_is_no_route() -> None:
    async with administration(gateway=replace(an_explaining_gateway(), explainer=None)) as admin:
        assert 404 == (await admin.ask("POST", "/explain", BODY, who="vi")).status_code
