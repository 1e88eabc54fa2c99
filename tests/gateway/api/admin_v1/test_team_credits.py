"""Team credits: who may give a part of a budget back, and where. tests/e2e/test_credits.py has the effect."""

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.models.registry import Models
from tests.gateway.api.admin_v1.administration import administration, fault
from tests.gateway.examples import a_draining

CREDIT = {"measure": "usd_per_day", "amount": 5}


@pytest.mark.parametrize(("who", "status"), [("vi", 403), ("op", 403), ("ow", 409)])
async def test_only_owners_give_back_and_only_where_budgets_are_counted(who: str, status: int) -> None:
    """409: the gateway counts none."""
    models = Models()
    gateway = AdminGateway(models, tuple, draining=a_draining(models))
    async with administration(gateway=gateway) as admin:
        await admin.make("teams", name="blue", limits={"usd_per_day": 10.0})

        assert status == fault(await admin.ask("POST", "/teams/blue/credits", CREDIT, who=who))[0]


async def test_beside_no_gateway_there_is_no_such_route() -> None:
    async with administration() as admin:
        assert 404 == (await admin.ask("POST", "/teams/blue/credits", CREDIT)).status_code
