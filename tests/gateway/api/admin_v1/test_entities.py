"""Teams and keys as the store has them, with those that are declared."""

import pytest

from gateway.api.admin_v1.entities import ATTEMPTS, DeclaredElsewhere, Entities, retried
from gateway.protocol.errors import Conflict, UnknownEntity
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import PutKey, PutTeam
from tests.gateway.api.admin_v1.administration import Administration

ENTRY = AuditEntry(time="2026-11-21T08:00:00.000Z", who="ow", role="owner", action="create", kind="team", id="x")


def entities(admin: Administration, declared: Declared | None = None) -> Entities:
    directory = Directory()
    directory.declare(declared or Declared())
    return Entities(SqliteTeamStore(admin.file), directory)


async def test_what_one_gateway_wrote_another_one_reads_at_once(admin: Administration) -> None:
    """A client may be sent from one to the other by a load balancer."""
    one, other = entities(admin), entities(admin)
    await one.write(PutTeam(Team(name="blue")), ENTRY)
    await one.write(PutKey(Key(id="ci", team="blue", digest="d")), ENTRY)

    assert Team(name="blue") == await other.team("blue")
    assert "blue" == (await other.key("ci")).team


async def test_what_was_written_is_in_the_directory(admin: Administration) -> None:
    """The gateway that it belongs to knows the key without having to hear of it."""
    one = entities(admin)
    await one.write(PutTeam(Team(name="blue")), ENTRY)
    await one.write(PutKey(Key(id="ci", team="blue", digest="d")), ENTRY)
    caller = one.directory.caller_of("d")

    assert caller is not None
    assert ("blue", "ci") == (caller.team.name, caller.key.id)


async def test_what_is_not_there_is_unknown(admin: Administration) -> None:
    with pytest.raises(UnknownEntity, match="There is no team 'red'"):
        await entities(admin).team("red")
    with pytest.raises(UnknownEntity, match="There is no key 'ci'"):
        await entities(admin).key("ci")


async def test_what_is_declared_can_be_read_and_not_changed(admin: Administration) -> None:
    declared = Declared({"blue": Team(name="blue")}, {"ci": Key(id="ci", team="blue", digest="d")})
    found = entities(admin, declared)

    assert "blue" == (await found.team("blue")).name
    assert "ci" == (await found.key("ci")).id
    with pytest.raises(DeclaredElsewhere, match="The team 'blue' is declared in the configuration"):
        await found.team("blue", to_change=True)
    with pytest.raises(DeclaredElsewhere, match="The key 'ci' is declared in the configuration"):
        await found.key("ci", to_change=True)


@pytest.mark.parametrize(
    ("error", "times"), [(Conflict("x"), ATTEMPTS), (DeclaredElsewhere("x"), 1), (UnknownEntity("x"), 1)]
)
async def test_only_what_another_attempt_could_mend_is_tried_again(error: Exception, times: int) -> None:
    attempts = 0

    async def change() -> None:
        nonlocal attempts
        attempts += 1
        raise error

    with pytest.raises(type(error)):
        await retried(change)

    assert times == attempts


async def test_the_attempt_that_succeeds_is_the_last() -> None:
    conflicts = iter([Conflict("x"), Conflict("x")])

    async def change() -> str:
        for conflict in conflicts:
            raise conflict
        return "done"

    assert "done" == await retried(change)
