"""Users and groups of one issuer in the store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.api.admin_v1.entities import Entities
from gateway.api.scim.directory import People
from gateway.api.scim.faults import ScimFault
from gateway.api.scim.resources import attributes_of
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.teams.access_records import MAX_USER_GROUPS, ProvisionedUser
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore


@pytest.fixture
async def entities() -> AsyncIterator[Entities]:
    file = SqliteFile(Path(":memory:"))
    store = SqliteTeamStore(file)
    await store.initialize(None)
    yield Entities(store, Directory())
    await file.aclose()


async def people(entities: Entities) -> People:
    found = People("okta", entities, lambda: 60.0)
    await found.read()
    return found


async def test_a_change_that_another_request_defeats_is_computed_again(entities: Entities) -> None:
    one, other = await people(entities), await people(entities)
    user = await one.add_user({"userName": "alice"})
    await other.read()
    await one.change_user(user.id, lambda former: {"userName": former.user_name, "title": "Dr"})
    changed = await other.change_user(
        user.id, lambda former: {"userName": former.user_name, **attributes_of(former), "active": False}
    )

    assert ({"title": "Dr"}, False) == (attributes_of(changed), changed.active)


async def test_a_user_that_another_request_deleted_is_gone(entities: Entities) -> None:
    one, other = await people(entities), await people(entities)
    user = await one.add_user({"userName": "alice"})
    await other.read()
    await one.delete_user(user.id)
    with pytest.raises(ScimFault) as refused:
        await other.change_user(user.id, lambda former: {"userName": former.user_name, "active": False})

    assert 404 == refused.value.status


async def test_the_groups_of_a_user_are_bounded(entities: Entities) -> None:
    found = await people(entities)
    user = await found.add_user({"userName": "alice"})
    for number in range(MAX_USER_GROUPS):
        await found.add_group({"displayName": f"g{number}", "members": [{"value": user.id}]})
    with pytest.raises(ScimFault, match="200 groups, which is the maximum"):
        await found.add_group({"displayName": "one more", "members": [{"value": user.id}]})

    assert MAX_USER_GROUPS == len(found.user(user.id).groups) == len(found.groups)


async def test_a_change_of_a_group_writes_only_the_users_that_join_or_leave(entities: Entities) -> None:
    found = await people(entities)
    users = [await found.add_user({"userName": name}) for name in ("alice", "bob")]
    group = await found.add_group({"displayName": "g", "members": [{"value": users[0].id}]})
    before = {each.name: each for each in found.users}
    await found.change_group(
        group.id, lambda _: {"displayName": "g", "members": [{"value": each.id} for each in users]}
    )
    after = {each.name: each for each in found.users}

    assert after[users[0].name] is before[users[0].name]
    assert isinstance(after[users[1].name], ProvisionedUser)
    assert (group.id,) == after[users[1].name].groups
