"""People and groups that identity providers keep up to date with SCIM, as tokens see them."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from gateway.protocol.errors import Forbidden, InvalidKey
from gateway.tenancy.identity.issuer import Provisioning
from gateway.tenancy.teams.access_records import AccessRecord, ProvisionedGroup, ProvisionedUser, group_row
from gateway.tenancy.teams.directory import Directory

GROUPS_CLAIM: Final = "scim_groups"
"""Claim that rules can name. Its values are the names of a person's groups, whatever the token contains."""


class Standing(NamedTuple):
    """State of a provisioned person."""

    is_active: bool
    groups: tuple[str, ...]
    """Names of the person's groups, in the order in which the person became a member."""


class ProvisionedPeople:
    """Lookup of the people in *directory*. *attributes* maps each issuer that provisions people to the attribute that
    its tokens contain.
    """

    def __init__(self, directory: Directory, attributes: Mapping[str, Literal["userName", "externalId"]]) -> None:
        self._directory = directory
        self._attributes = attributes
        self._records: Mapping[str, AccessRecord] = {}
        self._users: dict[tuple[str, str], ProvisionedUser] = {}
        """People by issuer and the value of the attribute. Active people precede others with the same value."""

    def standing(self, issuer: str, person: str) -> Standing | None:
        """Return the standing of *person*, or None if *issuer* has not provisioned the person.

        Takes about 2 us, and O(records) after a change of any record.
        """
        self._catch_up()
        user = self._users.get((issuer, self._folded(issuer, person)))
        if user is None:
            return None
        groups = (self._records.get(group_row(each)) for each in user.groups)
        return Standing(user.active, tuple(each.display_name for each in groups if isinstance(each, ProvisionedGroup)))

    def _catch_up(self) -> None:
        records = self._directory.access
        if records is self._records:
            return
        has_changed = records != self._records  # unchanged rows are the same objects, so this is fast
        self._records = records
        if has_changed:
            self._users = {}
            for each in records.values():
                if isinstance(each, ProvisionedUser):
                    said = each.user_name if self._attributes.get(each.issuer) == "userName" else each.external_id
                    place = each.issuer, self._folded(each.issuer, said or "")
                    if said and (each.active or place not in self._users):
                        self._users[place] = each

    def _folded(self, issuer: str, value: str) -> str:
        """Return *value* in the form in which it is compared: user names ignore case (RFC 7643, section 4.1.1)."""
        return value.casefold() if self._attributes.get(issuer) == "userName" else value


def check_standing(standing: Standing | None, provisioning: Provisioning) -> None:
    """Check that a person with *standing* can use the gateway.

    Raises:
        InvalidKey: if the person is deactivated.
        Forbidden: ``user_not_provisioned`` if the person is not provisioned and must be.
    """
    if standing is None and not provisioning.accepts_unknown:
        raise Forbidden("The token is valid, but its user is not provisioned (SCIM)", code="user_not_provisioned")
    if standing is not None and not standing.is_active:
        raise InvalidKey("The user of the token is deactivated")
