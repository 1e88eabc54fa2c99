"""Users and groups of one issuer in the store, and their changes, which concurrent ones may defeat."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import structs

from gateway.api.admin_v1.entities import Entities
from gateway.api.scim.faults import ScimFault
from gateway.api.scim.resources import Json, group_of, members_of, user_of
from gateway.api.times import to_the_millisecond
from gateway.protocol.errors import Conflict
from gateway.tenancy.ledger.audit import Action, AuditEntry, shown
from gateway.tenancy.teams.access_records import (
    MAX_USER_GROUPS,
    AccessRecord,
    ProvisionedGroup,
    ProvisionedUser,
    group_row,
    user_row,
)
from gateway.tenancy.teams.team_store import PutAccess

ATTEMPTS: Final = 8
"""Maximum number of attempts at a change while other requests change the same records."""

Change = tuple[Mapping[str, AccessRecord | None], Mapping[str, AccessRecord | None]]
"""Records to write, and the records that must be in the store before, by name."""


class People:
    """Users and groups of the issuer *issuer*. *wall_clock* returns seconds since 1970."""

    def __init__(self, issuer: str, entities: Entities, wall_clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._entities = entities
        self._wall_clock = wall_clock
        self._members: dict[str, list[ProvisionedUser]] | None = None
        self._use({})

    async def read(self) -> None:
        """Read the current records from the store.

        Raises:
            StoreUnavailable: if the store cannot be reached.
        """
        self._use((await self._entities.look()).access)

    def user(self, identifier: str) -> ProvisionedUser:
        """Return the user with *identifier*. Raise ScimFault with status 404 if the issuer has no such user."""
        found = self._records.get(user_row(identifier))
        if not isinstance(found, ProvisionedUser) or not self._owns(found):
            raise ScimFault(404, f"There is no user {identifier[:100]!r}.")
        return found

    def group(self, identifier: str) -> ProvisionedGroup:
        """Return the group with *identifier*. Raise ScimFault with status 404 if the issuer has no such group."""
        found = self._records.get(group_row(identifier))
        if not isinstance(found, ProvisionedGroup) or not self._owns(found):
            raise ScimFault(404, f"There is no group {identifier[:100]!r}.")
        return found

    def members(self, group: ProvisionedGroup) -> list[ProvisionedUser]:
        """Return the members of *group*. O(users) once, and then O(1)."""
        members = self._members
        if members is None:
            members = self._members = {}
            for each in self.users:
                for identifier in each.groups:
                    members.setdefault(identifier, []).append(each)
        return members.get(group.id, [])

    async def add_user(self, body: Json) -> ProvisionedUser:
        now = self._wall_clock()
        new = ProvisionedUser(self._issuer, secrets.token_hex(16), "", created_at=now, changed_at=now)
        made = user_of(body, new)
        await self._write(lambda: ({made.name: made}, {made.name: None}), "create", made)
        return made

    async def change_user(self, identifier: str, changed: Callable[[ProvisionedUser], Json]) -> ProvisionedUser:
        """Replace the attributes of a user by those that *changed* returns for the current user."""

        def change() -> Change:
            former = self.user(identifier)
            made = user_of(changed(former), former)
            if made != former:
                made = structs.replace(made, changed_at=self._wall_clock())
            return {made.name: made}, {made.name: former}

        written = await self._write(change, "update", self.user(identifier))
        found = written[user_row(identifier)]
        assert isinstance(found, ProvisionedUser)
        return found

    async def delete_user(self, identifier: str) -> None:
        def change() -> Change:
            former = self.user(identifier)
            return {former.name: None}, {former.name: former}

        await self._write(change, "delete", self.user(identifier))

    async def add_group(self, body: Json) -> ProvisionedGroup:
        now = self._wall_clock()
        made = group_of(body, ProvisionedGroup(self._issuer, secrets.token_hex(16), "", created_at=now, changed_at=now))
        members = members_of(body) or ()

        def change() -> Change:
            records, formers = self._with_members(made, members)
            return {made.name: made, **records}, {made.name: None, **formers}

        await self._write(change, "create", made)
        return made

    async def change_group(self, identifier: str, changed: Callable[[ProvisionedGroup], Json]) -> ProvisionedGroup:
        """Replace a group and its members by what *changed* returns for the current group."""

        def change() -> Change:
            former = self.group(identifier)
            body = changed(former)
            made = structs.replace(group_of(body, former), changed_at=self._wall_clock())
            records, formers = self._with_members(made, members_of(body) or ())
            return {made.name: made, **records}, {made.name: former, **formers}

        written = await self._write(change, "update", self.group(identifier))
        found = written[group_row(identifier)]
        assert isinstance(found, ProvisionedGroup)
        return found

    async def delete_group(self, identifier: str) -> None:
        def change() -> Change:
            former = self.group(identifier)
            records, formers = self._with_members(former, ())
            return {former.name: None, **records}, {former.name: former, **formers}

        await self._write(change, "delete", self.group(identifier))

    def _use(self, records: Mapping[str, AccessRecord]) -> None:
        """Use *records* as the content of the store. O(records)."""
        self._records = records
        owned = [each for each in records.values() if each.issuer == self._issuer]
        self.users = [each for each in owned if isinstance(each, ProvisionedUser)]
        self.groups = {each.id: each for each in owned if isinstance(each, ProvisionedGroup)}
        self._members = None

    def _owns(self, record: AccessRecord) -> bool:
        return record.issuer == self._issuer

    def _with_members(self, group: ProvisionedGroup, members: Iterable[str]) -> Change:
        """Return the users whose membership in *group* changes so that exactly *members* are its members."""
        wanted = {identifier: self._member(identifier) for identifier in members}
        records: dict[str, AccessRecord | None] = {}
        formers: dict[str, AccessRecord | None] = {}
        for each in self.users:
            is_member, is_wanted = group.id in each.groups, each.id in wanted
            if is_member == is_wanted:
                continue
            groups = (*each.groups, group.id) if is_wanted else tuple(id_ for id_ in each.groups if id_ != group.id)
            if len(groups) > MAX_USER_GROUPS:
                text = f"The user {each.id!r} is a member of {MAX_USER_GROUPS} groups, which is the maximum."
                raise ScimFault(400, text, "tooMany")
            records[each.name], formers[each.name] = structs.replace(each, groups=groups), each
        return records, formers

    def _member(self, identifier: str) -> ProvisionedUser:
        found = self._records.get(user_row(identifier))
        if not isinstance(found, ProvisionedUser) or not self._owns(found):
            raise ScimFault(400, f"The member {identifier[:100]!r} is not a user.", "invalidValue")
        return found

    async def _write(
        self, change: Callable[[], Change], action: Action, entity: ProvisionedUser | ProvisionedGroup
    ) -> Mapping[str, AccessRecord | None]:
        """Write the records of *change*, which is called again after concurrent changes. Return the written records."""
        for attempt in range(ATTEMPTS):
            if attempt:
                await self.read()
            records, formers = change()
            after = records.get(entity.name)
            if all(records[name] == former for name, former in formers.items()):
                return records
            try:
                await self._entities.write(PutAccess(records, formers), self._audit(action, entity, after))
            except Conflict as conflict:
                if conflict.param is not None:
                    raise ScimFault(409, f"{conflict}.", "uniqueness") from None
                if attempt == ATTEMPTS - 1 or "changed meanwhile" not in str(conflict):
                    raise ScimFault(409, str(conflict)) from None
            else:
                self._use(self._entities.directory.access)
                return records
        raise AssertionError("the last attempt returns or raises")

    def _audit(
        self, action: Action, entity: ProvisionedUser | ProvisionedGroup, after: AccessRecord | None
    ) -> AuditEntry:
        kind = "user" if isinstance(entity, ProvisionedUser) else "group"
        return AuditEntry(
            time=to_the_millisecond(self._wall_clock()),
            who=f"scim:{self._issuer}",
            role="issuer",
            action=action,
            kind="user" if kind == "user" else "group",
            id=entity.id,
            before=None if action == "create" else shown(_summary(entity)),
            after=None if after is None else shown(_summary(after)),
        )


def _summary(record: AccessRecord) -> Json:
    match record:
        case ProvisionedUser():
            return {"userName": record.user_name, "active": record.active}
        case ProvisionedGroup():
            return {"displayName": record.display_name}
        case _:
            return {}
