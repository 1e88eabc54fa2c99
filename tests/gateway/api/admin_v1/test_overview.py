"""/admin/v1/overview."""

from dataclasses import replace

from gateway.api.admin_v1.parts import AdminGateway
from gateway.models.registry import Models
from tests.gateway.api.admin_v1.administration import administration
from tests.gateway.examples import a_draining
from tests.gateway.telemetry.test_traffic_history import Followed


def a_gateway(followed: Followed | None = None) -> AdminGateway:
    models = Models()
    gateway = AdminGateway(models, tuple, draining=a_draining(models))
    return gateway if followed is None else replace(gateway, history=followed.history)


async def test_the_last_minutes_are_a_series() -> None:
    followed = Followed()
    for _ in range(24):
        followed.answer()
        followed.take()
    async with administration(gateway=a_gateway(followed)) as admin:
        overview = await admin.get("/overview?minutes=1")

    assert (60.0, 12, 0) == tuple(overview["now"][name] for name in ("seconds", "requests", "failed"))
    assert [(1005.0 + 5 * i, 1) for i in range(24)] == [(each["time"], each["requests"]) for each in overview["series"]]


async def test_a_gateway_that_has_just_started_has_no_series() -> None:
    async with administration(gateway=a_gateway(Followed())) as admin:
        assert {"object": "overview", "now": None, "series": []} == await admin.get("/overview")
    async with administration(gateway=a_gateway()) as admin:
        assert {"object": "overview", "now": None, "series": []} == await admin.get("/overview")


async def test_the_series_is_at_most_an_hour() -> None:
    async with administration(gateway=a_gateway()) as admin:
        assert 400 == (await admin.ask("GET", "/overview?minutes=61")).status_code
