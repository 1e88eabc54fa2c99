"""/admin/v1/teams/{name}/limits: what is left of the limits of a team."""

from gateway.api.admin_v1.parts import AdminGateway
from gateway.models.registry import Models
from gateway.tenancy.quota.limit import Level, Limit
from gateway.tenancy.quota.limit_status import LimitStatus, Owners
from gateway.tenancy.quota.scope import Scoped
from gateway.tenancy.teams.team import Team
from tests.gateway.api.admin_v1.administration import administration
from tests.gateway.examples import a_draining


async def levels(team: Team, owners: Owners) -> list[LimitStatus]:
    limit = Limit("team:blue/usd_per_day", "period", 10.0)
    return [LimitStatus(Scoped(limit, "usd_per_day", "team", team.name, None), Level(7.5, 3600.0))]


async def test_each_limit_has_what_is_left_of_it() -> None:
    models = Models()
    async with administration(gateway=AdminGateway(models, tuple, draining=a_draining(models), limits=levels)) as admin:
        await admin.make("teams", name="blue", limits={"usd_per_day": 10.0})
        listed = (await admin.get("/teams/blue/limits"))["data"]
        unknown = await admin.ask("GET", "/teams/green/limits")

    assert [
        {
            "object": "limit", "scope": "team", "name": "blue", "measure": "usd_per_day", "model": None,
            "amount": 10.0, "at_once": 10.0, "remaining": 7.5, "reset_s": 3600.0,
        }
    ] == listed  # fmt: skip
    assert 404 == unknown.status_code


async def test_a_gateway_that_counts_no_limits_lists_none() -> None:
    models = Models()
    async with administration(gateway=AdminGateway(models, tuple, draining=a_draining(models))) as admin:
        await admin.make("teams", name="blue")

        assert [] == (await admin.get("/teams/blue/limits"))["data"]


async def test_of_a_limit_per_minute_only_a_part_can_be_used_at_once() -> None:
    async def rates(team: Team, owners: Owners) -> list[LimitStatus]:
        limit = Limit("team:blue/tokens_per_minute", "rate", 900.0, 90.0)
        return [LimitStatus(Scoped(limit, "tokens_per_minute", "team", team.name, None), Level(90.0, 0.0))]

    models = Models()
    async with administration(gateway=AdminGateway(models, tuple, draining=a_draining(models), limits=rates)) as admin:
        await admin.make("teams", name="blue")
        (limit,) = (await admin.get("/teams/blue/limits"))["data"]

    assert (900.0, 90.0, 90.0) == (limit["amount"], limit["at_once"], limit["remaining"])
