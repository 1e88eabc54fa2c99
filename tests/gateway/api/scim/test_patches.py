"""Changes by PATCH; `test_application.py` has tables of them."""

from typing import Any

import pytest

from gateway.api.scim.faults import ScimFault
from gateway.api.scim.patches import MAX_OPERATIONS, patched


def test_the_resource_itself_stays_unchanged() -> None:
    resource: dict[str, Any] = {"name": {"givenName": "A"}, "emails": [{"type": "work", "value": "a"}]}
    changed = patched(
        resource,
        [
            {"op": "add", "path": "name.familyName", "value": "B"},
            {"op": "replace", "path": 'emails[type eq "work"].value', "value": "b"},
            {"op": "add", "path": "emails", "value": {"value": "c"}},
        ],
    )

    assert {"name": {"givenName": "A"}, "emails": [{"type": "work", "value": "a"}]} == resource
    assert {"givenName": "A", "familyName": "B"} == changed["name"]
    assert [{"type": "work", "value": "b"}, {"value": "c"}] == changed["emails"]


def test_an_extension_is_merged() -> None:
    name = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
    operations = [
        {"op": "add", "value": {name: {"department": "R"}}},
        {"op": "add", "path": f"{name}:manager.value", "value": "m"},
        {"op": "remove", "path": f"{name}:department"},
    ]

    assert {name: {"manager": {"value": "m"}}} == patched({}, operations)


def test_a_whole_item_is_replaced_by_a_filter() -> None:
    operation = {"op": "replace", "path": 'emails[type eq "work"]', "value": {"value": "b", "primary": True}}

    assert {"emails": [{"type": "work", "value": "b", "primary": True}]} == patched(
        {"emails": [{"type": "work", "value": "a"}]}, [operation]
    )


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ({"op": "replace", "path": "emails.value", "value": "x"}, "invalidPath"),
        ({"op": "replace", "path": 'emails[type eq "work"].value.x', "value": "x"}, "invalidPath"),
        ({"op": "replace", "path": 'emails[type eq "work"] value', "value": "x"}, "invalidPath"),
        ({"op": "replace", "path": 'emails[type eq "work"]', "value": "x"}, "invalidValue"),
        ({"op": "replace", "path": 'emails[type "work"]', "value": "x"}, "invalidFilter"),
        ({"op": None}, "invalidSyntax"),
    ],
)
def test_a_bad_operation_is_refused(operation: Any, kind: str) -> None:
    with pytest.raises(ScimFault) as refused:
        patched({"emails": [{"type": "work"}]}, [operation])

    assert kind == refused.value.kind


def test_operations_are_bounded() -> None:
    with pytest.raises(ScimFault, match="1 to 1000 operations"):
        patched({}, [{"op": "add", "path": "title", "value": "x"}] * (MAX_OPERATIONS + 1))
