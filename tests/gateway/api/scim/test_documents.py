"""Documents that describe the server to clients."""

from gateway.api.scim.documents import SCHEMAS, TYPES
from gateway.api.scim.resources import GROUP, USER


def test_each_type_has_its_schema() -> None:
    assert {"User": ("/Users", USER), "Group": ("/Groups", GROUP)} == {
        name: (each["endpoint"], each["schema"]) for name, each in TYPES.items()
    }
    assert {USER: "User", GROUP: "Group"} == {name: each["name"] for name, each in SCHEMAS.items()}


def test_the_required_attributes_are_marked() -> None:
    assert {USER: ["userName"], GROUP: ["displayName"]} == {
        name: [attribute["name"] for attribute in each["attributes"] if attribute["required"]]
        for name, each in SCHEMAS.items()
    }
