"""Users and groups in the form of SCIM."""

from gateway.api.scim.resources import attributes_of, canonical, group_json, group_of, members_of, user_json, user_of
from gateway.tenancy.teams.access_records import ProvisionedGroup, ProvisionedUser

BASE = "http://g/scim/v2"
EMPTY = ProvisionedUser("okta", "u1", "", groups=("g1", "gone"), created_at=0.0, changed_at=60.0)
GROUP = ProvisionedGroup("okta", "g1", "research", external_id="e")


def test_a_user_survives_the_way_to_the_store_and_back() -> None:
    user = user_of({"USERNAME": "alice", "externalID": "x", "title": "Dr", "password": "p", "nickName": None}, EMPTY)
    shown = user_json(user, {"g1": GROUP}, BASE)

    assert ("alice", "x", True, {"title": "Dr"}) == (user.user_name, user.external_id, user.active, attributes_of(user))
    assert user == user_of(shown, EMPTY)
    assert [{"value": "g1", "$ref": f"{BASE}/Groups/g1", "display": "research"}] == shown["groups"]
    assert ("1970-01-01T00:00:00.000Z", "1970-01-01T00:01:00.000Z") == (
        shown["meta"]["created"],
        shown["meta"]["lastModified"],
    )


def test_a_group_survives_the_way_to_the_store_and_back() -> None:
    member = user_of({"userName": "alice"}, EMPTY)
    shown = group_json(GROUP, [member], BASE)

    assert GROUP == group_of(shown, GROUP)
    assert ("u1",) == members_of(shown)


def test_members_are_listed_once() -> None:
    assert ("a", "b") == members_of({"Members": [{"value": "a"}, {"value": "b"}, {"value": "a"}]})
    assert members_of({}) is None


def test_names_ignore_case() -> None:
    assert {"userName": 1, "other": 2, "members": 3} == canonical({"username": 1, "other": 2, "MEMBERS": 3})
