from typing import Any

import pytest

from gateway.app.tenancy import Tenancy
from gateway.batch.identity import KeyIdentity
from gateway.protocol.errors import InvalidKey
from tests.gateway.tenancy_examples import a_team, a_tenancy, at_work


def admitted(tenancy: Tenancy, secret: str) -> Any:
    return tenancy.access.caller(lambda name: f"Bearer {secret}" if name == b"authorization" else None, "192.0.2.1")


async def test_a_line_runs_for_the_key_that_created_its_batch() -> None:
    """With the lowest priority, and with a secret that is valid only as long as lines run."""
    async with at_work(a_tenancy(a_team())) as tenancy:
        identity = KeyIdentity(tenancy.directory, tenancy.access)
        caller = identity.caller("ci", "blue", "patient")
        identity.lend("secret", caller)

        assert caller is admitted(tenancy, "secret") is identity.caller("ci", "blue", "patient")
        assert ("blue", "ci", "batch") == (caller.team_name, caller.key_id, caller.priority)
        identity.take_back("secret")
        identity.take_back("secret")
        with pytest.raises(InvalidKey):
            admitted(tenancy, "secret")


async def test_the_network_of_a_key_was_checked_when_its_batch_was_created() -> None:
    team = a_team()
    team["keys"][0]["allowed_cidrs"] = ["10.0.0.0/8"]
    async with at_work(a_tenancy(team)) as tenancy:
        identity = KeyIdentity(tenancy.directory, tenancy.access)
        caller = identity.caller("ci", "blue", "patient")
        identity.lend("secret", caller)

        assert caller is admitted(tenancy, "secret")


@pytest.mark.parametrize(("key", "team"), [("gone", "blue"), ("ci", "red")])
async def test_a_key_that_does_not_exist_runs_nothing(key: str, team: str) -> None:
    async with at_work(a_tenancy(a_team())) as tenancy:
        with pytest.raises(InvalidKey, match="does not exist any more"):
            KeyIdentity(tenancy.directory, tenancy.access).caller(key, team, "patient")


async def test_a_blocked_team_runs_nothing() -> None:
    async with at_work(a_tenancy(a_team(blocked=True))) as tenancy:
        with pytest.raises(InvalidKey, match="is blocked"):
            KeyIdentity(tenancy.directory, tenancy.access).caller("ci", "blue", "patient")
