from gateway.app.created_teams import CreatedTeams
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team
from tests.gateway.tenancy_examples import NOW, a_tenancy, at_work

RESEARCH = Team("research", limits=Limits(requests_per_minute=5))


async def test_a_created_team_is_stored_known_and_in_the_audit_log() -> None:
    async with at_work(a_tenancy()) as tenancy:
        create = CreatedTeams(tenancy.stores.teams, tenancy.directory, wall_clock=lambda: NOW)
        await create(RESEARCH, "oidc:okta")
        (entry,) = (await tenancy.stores.teams.audit()).items

        assert RESEARCH == tenancy.directory.teams["research"]
        assert ("oidc:okta", "issuer", "create", "research") == (entry.who, entry.role, entry.action, entry.id)
        assert entry.after is not None
        assert 5 == entry.after["limits"]["requests_per_minute"]


async def test_a_team_that_another_request_created_first_is_kept() -> None:
    async with at_work(a_tenancy()) as tenancy:
        create = CreatedTeams(tenancy.stores.teams, tenancy.directory, wall_clock=lambda: NOW)
        await create(RESEARCH, "oidc:okta")
        await create(Team("research"), "oidc:okta")

        assert RESEARCH == tenancy.directory.teams["research"]
        assert 1 == len((await tenancy.stores.teams.audit()).items)
