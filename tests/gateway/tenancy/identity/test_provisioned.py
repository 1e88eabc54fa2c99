"""People whom an issuer provisions, as its tokens see them."""

from typing import Any, Literal

import pytest
from msgspec import structs

from gateway.protocol.errors import Forbidden, InvalidKey
from gateway.tenancy.identity.issuer import Provisioning
from gateway.tenancy.identity.provisioned import ProvisionedPeople, Standing, check_standing
from gateway.tenancy.teams.access_records import AccessRecord, ProvisionedGroup, ProvisionedUser
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.team_store import Snapshot

RESEARCH, OTHER = ProvisionedGroup("okta", "g1", "llm-research"), ProvisionedGroup("okta", "g2", "other")
ALICE = ProvisionedUser("okta", "u1", "Alice@Example.com", external_id="Ext-1", groups=("g2", "g1", "gone"))


def directory(*records: AccessRecord) -> Directory:
    found = Directory()
    change(found, *records)
    return found


def change(found: Directory, *records: AccessRecord) -> None:
    found.apply(Snapshot(found.revision + 1, access={each.name: each for each in records}))


def people(attribute: Literal["userName", "externalId"], *records: AccessRecord) -> ProvisionedPeople:
    return ProvisionedPeople(directory(*records), {"okta": attribute})


def test_a_user_name_ignores_case_and_gives_the_groups_in_the_order_of_joining() -> None:
    found = people("userName", RESEARCH, OTHER, ALICE)

    assert Standing(is_active=True, groups=("other", "llm-research")) == found.standing("okta", "alice@example.com")
    assert found.standing("okta", "Ext-1") is None
    assert found.standing("entra", "alice@example.com") is None


def test_an_external_id_is_compared_exactly() -> None:
    found = people("externalId", ALICE)

    assert Standing(is_active=True, groups=()) == found.standing("okta", "Ext-1")
    assert found.standing("okta", "ext-1") is None
    assert found.standing("okta", "") is None


def test_changes_are_seen_at_once() -> None:
    known = directory(ALICE)
    found = ProvisionedPeople(known, {"okta": "userName"})
    assert Standing(is_active=True, groups=()) == found.standing("okta", ALICE.user_name)
    change(known, structs.replace(ALICE, active=False), RESEARCH)

    assert Standing(is_active=False, groups=("llm-research",)) == found.standing("okta", ALICE.user_name)
    change(known)
    assert found.standing("okta", ALICE.user_name) is None


def test_of_two_people_with_one_external_id_the_active_one_counts() -> None:
    former = structs.replace(ALICE, id="u0", user_name="old", active=False)
    for records in ((former, ALICE), (ALICE, former)):
        assert Standing(is_active=True, groups=()) == people("externalId", *records).standing("okta", "Ext-1")


ACTIVE, INACTIVE = Standing(is_active=True, groups=()), Standing(is_active=False, groups=())


@pytest.mark.parametrize(
    ("standing", "accepts_unknown", "expected"),
    [
        (ACTIVE, False, None),
        (INACTIVE, False, InvalidKey),
        (INACTIVE, True, InvalidKey),
        (None, False, Forbidden),
        (None, True, None),
    ],
)
def test_only_active_people_are_served(standing: Standing | None, accepts_unknown: bool, expected: Any) -> None:
    provisioning = Provisioning(accepts_unknown=accepts_unknown)
    if expected is None:
        check_standing(standing, provisioning)
    else:
        with pytest.raises(expected):
            check_standing(standing, provisioning)
