"""SCIM as Okta and Microsoft Entra use it: a table of their requests, modelled on their published tests."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.gateway.api.scim.served import ENTRA, GROUP_SCHEMA, OKTA, USER_SCHEMA, Served, served

ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
OKTA_USER = {
    "schemas": [USER_SCHEMA],
    "userName": "alice@example.com",
    "name": {"givenName": "Alice", "familyName": "Liddell"},
    "emails": [{"primary": True, "value": "alice@example.com", "type": "work"}],
    "displayName": "Alice Liddell",
    "locale": "en-US",
    "externalId": "00ujl29u0le5T6Aj10h7",
    "groups": [],
    "password": "1mz050nq",
    "active": True,
}
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
ENTRA_USER = {
    "schemas": [USER_SCHEMA, ENTERPRISE],
    "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
    "userName": "Test_User_ab6490ee-1e48-479e-a20b-2d77186b5dd1",
    "active": True,
    "emails": [{"primary": True, "type": "work", "value": "Test_User_fd0ea19b@testuser.com"}],
    "meta": {"resourceType": "User"},
    "name": {"formatted": "givenName familyName", "familyName": "familyName", "givenName": "givenName"},
    "roles": [],
    ENTERPRISE: {"department": "Research"},
}


def error(response: httpx.Response) -> tuple[int, str | None]:
    """Status and scimType of an error in the shape of SCIM."""
    said = response.json()
    assert [ERROR] == said["schemas"]
    assert str(response.status_code) == said["status"]
    assert "application/scim+json" == response.headers["content-type"]
    return response.status_code, said.get("scimType")


async def test_a_user_is_created_read_and_found_as_okta_does() -> None:
    async with served() as scim:
        before = await scim.get('/Users?filter=userName eq "alice@example.com"&startIndex=1&count=100')
        made = await scim.ask("POST", "/Users", OKTA_USER)
        user = made.json()
        found = await scim.get('/Users?filter=userName eq "Alice@Example.com"&startIndex=1&count=100')

        assert {"schemas": [LIST], "totalResults": 0, "startIndex": 1, "itemsPerPage": 0, "Resources": []} == before
        assert 201 == made.status_code
        assert made.headers["location"] == user["meta"]["location"]
        assert user["meta"] == {
            "resourceType": "User",
            "created": "2026-11-21T08:00:00.000Z",
            "lastModified": "2026-11-21T08:00:00.000Z",
            "location": f"http://gateway.example.com/scim/v2/Users/{user['id']}",
        }
        assert {**OKTA_USER, "id": user["id"], "meta": user["meta"]} == {**user, "password": "1mz050nq"}
        assert user == await scim.get(f"/Users/{user['id']}")
        assert (1, [user]) == (found["totalResults"], found["Resources"])


async def test_the_password_of_a_user_is_neither_returned_nor_stored() -> None:
    async with served() as scim:
        made = await scim.ask("POST", "/Users", {**OKTA_USER, "PassWord": "1mz050nq"})

        assert "1mz050nq" not in made.text
        assert "1mz050nq" not in repr(await scim.store.load())
        assert "1mz050nq" not in repr(await scim.store.audit())


async def test_a_user_of_entra_keeps_its_extension() -> None:
    async with served() as scim:
        user = (await scim.ask("POST", "/Users", ENTRA_USER)).json()
        changed = await scim.patch(
            f"/Users/{user['id']}",
            {"op": "Replace", "path": f"{ENTERPRISE}:department", "value": "Sales"},
            {"op": "Add", "path": f"{ENTERPRISE}:manager", "value": "m-1"},
        )

        assert [USER_SCHEMA, ENTERPRISE] == user["schemas"]
        assert {"department": "Sales", "manager": "m-1"} == changed.json()[ENTERPRISE]


USER_PATCHES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Okta deactivates", [{"op": "replace", "value": {"active": False}}], {"active": False}),
    ("Entra deactivates", [{"op": "Replace", "path": "active", "value": "False"}], {"active": False}),
    ("Entra with a boolean", [{"op": "Replace", "path": "active", "value": False}], {"active": False}),
    ("full path", [{"op": "replace", "path": f"{USER_SCHEMA}:active", "value": False}], {"active": False}),
    ("other case", [{"op": "REPLACE", "path": "ACTIVE", "value": "false"}], {"active": False}),
    (
        "Entra renames",
        [{"op": "Replace", "path": "userName", "value": "5b50642d-79fc-4410-9e90-4c077cdd1a59@testuser.com"}],
        {"userName": "5b50642d-79fc-4410-9e90-4c077cdd1a59@testuser.com"},
    ),
    (
        "Entra several",
        [
            {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "updated@example.com"},
            {"op": "Replace", "path": "name.familyName", "value": "updatedFamilyName"},
        ],
        {
            "emails": [{"primary": True, "value": "updated@example.com", "type": "work"}],
            "name": {"givenName": "Alice", "familyName": "updatedFamilyName"},
        },
    ),
    (
        "Entra with dots and without a path",
        [{"op": "Add", "value": {"name.givenName": "A", "name.formatted": "A. L.", "title": "Dr"}}],
        {"name": {"givenName": "A", "familyName": "Liddell", "formatted": "A. L."}, "title": "Dr"},
    ),
    (
        "a filter that finds nothing adds",
        [{"op": "Add", "path": 'phoneNumbers[type eq "mobile"].value', "value": "+1 555"}],
        {"phoneNumbers": [{"type": "mobile", "value": "+1 555"}]},
    ),
    ("remove an attribute", [{"op": "remove", "path": "displayName"}], {"displayName": None}),
    ("remove a part", [{"op": "Remove", "path": "name.givenName"}], {"name": {"familyName": "Liddell"}}),
    ("remove items", [{"op": "remove", "path": 'emails[type eq "work"]'}], {"emails": []}),
    (
        "remove a part of items",
        [{"op": "remove", "path": 'emails[type eq "work"].primary'}],
        {"emails": [{"value": "alice@example.com", "type": "work"}]},
    ),
    (
        "add to a list",
        [{"op": "add", "path": "emails", "value": [{"value": "a@home.example", "type": "home"}]}],
        {
            "emails": [
                {"primary": True, "value": "alice@example.com", "type": "work"},
                {"value": "a@home.example", "type": "home"},
            ]
        },
    ),
    ("replace a list", [{"op": "replace", "path": "emails", "value": []}], {"emails": []}),
    ("read-only attributes stay", [{"op": "replace", "value": {"id": "x", "meta": {}, "groups": ["g"]}}], {}),
]


@pytest.mark.parametrize(
    ("operations", "expected"), [case[1:] for case in USER_PATCHES], ids=[c[0] for c in USER_PATCHES]
)
async def test_a_user_is_patched(operations: list[Any], expected: dict[str, Any]) -> None:
    async with served() as scim:
        user = (await scim.ask("POST", "/Users", OKTA_USER)).json()
        scim.clock.now += 60
        changed = await scim.patch(f"/Users/{user['id']}", *operations)
        after = await scim.get(f"/Users/{user['id']}")

        assert 200 == changed.status_code, changed.text
        assert changed.json() == after
        wanted = {name: value for name, value in {**user, **expected}.items() if value is not None}
        assert {**wanted, "meta": after["meta"]} == after
        assert ("2026-11-21T08:01:00.000Z" if expected else "2026-11-21T08:00:00.000Z") == after["meta"]["lastModified"]


async def test_okta_replaces_a_user() -> None:
    async with served() as scim:
        user = (await scim.ask("POST", "/Users", OKTA_USER)).json()
        group = await scim.add_group("llm-research", user["id"])
        body = {**OKTA_USER, "active": False, "displayName": None, "id": user["id"]}
        changed = (await scim.ask("PUT", f"/Users/{user['id']}", body)).json()

        assert (False, None) == (changed["active"], changed.get("displayName"))
        assert [group] == [each["value"] for each in changed["groups"]]


GROUP_PATCHES: list[tuple[str, list[Any], str]] = [
    ("Okta adds", [{"op": "add", "path": "members", "value": [{"value": "C", "display": "carol"}]}], "ABC"),
    ("Entra adds", [{"op": "Add", "path": "members", "value": [{"$ref": None, "value": "C"}]}], "ABC"),
    ("adds a member again", [{"op": "add", "path": "members", "value": [{"value": "A"}]}], "AB"),
    ("Okta removes", [{"op": "remove", "path": 'members[value eq "A"]'}], "B"),
    ("Entra removes", [{"op": "Remove", "path": "members", "value": [{"$ref": None, "value": "A"}]}], "B"),
    ("removes one who is no member", [{"op": "remove", "path": 'members[value eq "C"]'}], "AB"),
    ("removes all", [{"op": "remove", "path": "members"}], ""),
    ("replaces", [{"op": "replace", "path": "members", "value": [{"value": "C"}]}], "C"),
    ("replaces without a path", [{"op": "replace", "value": {"members": [{"value": "B"}, {"value": "C"}]}}], "BC"),
    (
        "Okta replaces by removing and adding",
        [
            {"op": "remove", "path": 'members[value eq "A"]'},
            {"op": "add", "path": "members", "value": [{"value": "C"}]},
        ],
        "BC",
    ),
    ("Okta renames", [{"op": "replace", "value": {"id": "G", "displayName": "llm-new"}}], "AB"),
    ("Entra renames", [{"op": "Replace", "path": "displayName", "value": "llm-new"}], "AB"),
]


@pytest.mark.parametrize(("name", "operations", "expected"), GROUP_PATCHES, ids=[case[0] for case in GROUP_PATCHES])
async def test_a_group_is_patched(name: str, operations: list[Any], expected: str) -> None:
    async with served() as scim:
        ids = {letter: await scim.add_user(f"{letter}@example.com") for letter in "ABC"}
        group = await scim.add_group("llm-research", ids["A"], ids["B"])
        changed = await scim.patch(f"/Groups/{group}", *_with_ids(operations, {**ids, "G": group}))
        after = await scim.get(f"/Groups/{group}")

        assert 200 == changed.status_code, changed.text
        assert {ids[letter] for letter in expected} == {each["value"] for each in after["members"]}
        assert ("llm-new" if "renames" in name else "llm-research") == after["displayName"]


def _with_ids(said: Any, ids: dict[str, str]) -> Any:
    """Replace the letters that stand for ids."""
    if isinstance(said, list):
        return [_with_ids(each, ids) for each in said]
    if isinstance(said, dict):
        return {name: _with_ids(value, ids) for name, value in said.items()}
    if isinstance(said, str):
        for letter, identifier in ids.items():
            said = identifier if said == letter else said.replace(f'"{letter}"', f'"{identifier}"')
    return said


async def test_a_group_is_created_read_replaced_and_deleted() -> None:
    async with served() as scim:
        alice, bob = await scim.add_user("alice"), await scim.add_user("bob")
        group = await scim.add_group("llm-research", alice)
        read = await scim.get(f"/Groups/{group}")
        short = await scim.get(f"/Groups/{group}?excludedAttributes=members")
        body = {"schemas": [GROUP_SCHEMA], "displayName": "llm-b", "externalId": "x", "members": [{"value": bob}]}
        replaced = await scim.ask("PUT", f"/Groups/{group}", body)
        of_bob = (await scim.get(f"/Users/{bob}"))["groups"]
        deleted = await scim.ask("DELETE", f"/Groups/{group}")

        assert [{"value": alice, "$ref": f"http://gateway.example.com/scim/v2/Users/{alice}", "display": "alice"}] == (
            read["members"]
        )
        assert "members" not in short
        assert ("llm-b", "x", [bob]) == (
            replaced.json()["displayName"],
            replaced.json()["externalId"],
            [each["value"] for each in replaced.json()["members"]],
        )
        assert [(group, "llm-b")] == [(each["value"], each["display"]) for each in of_bob]
        assert (204, 404) == (deleted.status_code, (await scim.ask("GET", f"/Groups/{group}")).status_code)
        assert [] == (await scim.get(f"/Users/{bob}"))["groups"]


async def test_a_deleted_user_is_gone_from_its_groups() -> None:
    async with served() as scim:
        alice = await scim.add_user("alice")
        group = await scim.add_group("llm-research", alice)
        deleted = await scim.ask("DELETE", f"/Users/{alice}")

        assert 204 == deleted.status_code
        assert set() == await scim.members(group)
        assert [404, 404, 404] == [
            (await scim.ask(method, f"/Users/{alice}", body)).status_code
            for method, body in (("GET", None), ("DELETE", None), ("PUT", OKTA_USER))
        ]
        assert await scim.add_user("alice") != alice


FILTERS = [
    ('userName eq "alice"', ["alice"]),
    ('externalId eq "e-1"', ["alice"]),
    ('externalId eq "E-1"', []),
    ("active eq false", ["carol"]),
    ('userName sw "a" or userName ew "b"', ["alice", "bob"]),
    ('userName co "O" and not (active eq false)', ["bob"]),
    ('emails[type eq "work" and value co "@example.com"]', ["alice"]),
    ('emails.value eq "alice@example.com"', ["alice"]),
    ("externalId pr", ["alice"]),
    ('userName ne "alice"', ["bob", "carol"]),
    ('meta.lastModified ge "2026-11-21T08:00:00.000Z"', ["alice", "bob", "carol"]),
    ('meta.lastModified gt "2026-11-21T08:00:00.000Z"', []),
    (f'{USER_SCHEMA}:userName eq "bob"', ["bob"]),
    ('unknown eq "x"', []),
]


@pytest.mark.parametrize(("said", "expected"), FILTERS, ids=[case[0] for case in FILTERS])
async def test_users_are_filtered(said: str, expected: list[str]) -> None:
    async with served() as scim:
        await scim.add_user("alice", externalId="e-1", emails=[{"type": "work", "value": "alice@example.com"}])
        await scim.add_user("bob")
        await scim.add_user("carol", active=False)
        found = await scim.get(f"/Users?{httpx.QueryParams(filter=said)}")

        assert sorted(expected) == sorted(each["userName"] for each in found["Resources"])
        assert len(expected) == found["totalResults"]


async def test_groups_are_filtered_by_name_and_by_member() -> None:
    async with served() as scim:
        alice = await scim.add_user("alice")
        group = await scim.add_group("LLM Research", alice)
        await scim.add_group("other")

        for said in (
            'displayName eq "llm research"',
            f'id eq "{group}" and members eq "{alice}"',
            f'members[value eq "{alice}"]',
        ):
            query = httpx.QueryParams(filter=said, excludedAttributes="members")
            assert [group] == [each["id"] for each in (await scim.get(f"/Groups?{query}"))["Resources"]]


async def test_lists_have_pages() -> None:
    async with served() as scim:
        names = [f"user-{number}" for number in range(5)]
        for name in names:
            await scim.add_user(name)
        pages = [await scim.get(f"/Users?startIndex={start}&count=2") for start in (1, 3, 5, 7, 0)]
        none = await scim.get("/Users?count=0")

        assert [[2, 5], [2, 5], [1, 5], [0, 5], [2, 5]] == [[p["itemsPerPage"], p["totalResults"]] for p in pages]
        assert set(names) == {each["userName"] for page in pages[:3] for each in page["Resources"]}
        assert (0, 5) == (none["itemsPerPage"], none["totalResults"])
        assert {"id", "schemas", "userName"} == (await scim.get("/Users?attributes=userName"))["Resources"][0].keys()


BAD: list[tuple[str, str, Any, int, str | None]] = [
    ("POST", "/Users", {"userName": "ALICE"}, 409, "uniqueness"),
    ("POST", "/Groups", {"displayName": "Research"}, 409, "uniqueness"),
    ("PUT", "/Users/{bob}", {"userName": "alice"}, 409, "uniqueness"),
    ("POST", "/Users", {}, 400, "invalidValue"),
    ("POST", "/Users", {"userName": ""}, 400, "invalidValue"),
    ("POST", "/Users", {"userName": "x" * 257}, 400, "invalidValue"),
    ("POST", "/Users", {"userName": 7}, 400, "invalidValue"),
    ("POST", "/Users", {"userName": "x", "active": "perhaps"}, 400, "invalidValue"),
    ("POST", "/Users", {"userName": "x", "title": "y" * 5000}, 400, "invalidValue"),
    ("POST", "/Users", ["x"], 400, "invalidSyntax"),
    ("POST", "/Groups", {"displayName": "g", "members": [{"value": "nobody"}]}, 400, "invalidValue"),
    ("POST", "/Groups", {"displayName": "g", "members": ["x"]}, 400, "invalidValue"),
    ("POST", "/Groups", {"displayName": "g", "members": "x"}, 400, "invalidValue"),
    ("PATCH", "/Users/{bob}", {}, 400, "invalidSyntax"),
    ("PATCH", "/Users/{bob}", {"Operations": []}, 400, "invalidSyntax"),
    ("PATCH", "/Users/{bob}", {"Operations": ["x"]}, 400, "invalidSyntax"),
    ("PATCH", "/Users/{bob}", {"Operations": [{"op": "move", "path": "active"}]}, 400, "invalidSyntax"),
    ("PATCH", "/Users/{bob}", {"Operations": [{"op": "remove"}]}, 400, "noTarget"),
    ("PATCH", "/Users/{bob}", {"Operations": [{"op": "add", "value": 1}]}, 400, "invalidValue"),
    ("PATCH", "/Users/{bob}", {"Operations": [{"op": "add", "path": 1}]}, 400, "invalidPath"),
    ("PATCH", "/Users/{bob}", {"Operations": [{"op": "add", "path": "a b", "value": 1}]}, 400, "invalidPath"),
    ("PATCH", "/Users/{bob}", {"Operations": [{"op": "remove", "path": "userName"}]}, 400, "invalidValue"),
    (
        "PATCH",
        "/Users/{bob}",
        {"Operations": [{"op": "replace", "path": "active", "value": None}]},
        400,
        "invalidValue",
    ),
    ("PATCH", "/Users/{bob}", {"Operations": [{"op": "add", "path": "emails[", "value": 1}]}, 400, "invalidPath"),
    (
        "PATCH",
        "/Users/{bob}",
        {"Operations": [{"op": "add", "path": "emails[type pr].value", "value": 1}]},
        400,
        "noTarget",
    ),
    ("PATCH", "/Users/{bob}", {"Operations": [{"op": "add", "path": 'a[b eq "c"]', "value": 1}]}, 400, "invalidValue"),
    ("PATCH", "/Users/none", {"Operations": [{"op": "add", "path": "title", "value": "x"}]}, 404, None),
    ("GET", "/Users?filter=userName eq", None, 400, "invalidFilter"),
    ("GET", '/Users?filter=userName is "x"', None, 400, "invalidFilter"),
    ("GET", "/Users?filter=userName eq x", None, 400, "invalidFilter"),
    ("GET", '/Users?filter=(userName eq "x"', None, 400, "invalidFilter"),
    ("GET", '/Users?filter=title eq "x" title', None, 400, "invalidFilter"),
    ("GET", '/Users?filter=title eq "x', None, 400, "invalidFilter"),
    ("GET", f"/Users?filter={'(' * 10}", None, 400, "invalidFilter"),
    ("GET", f"/Users?filter={'x' * 2001}", None, 400, "invalidFilter"),
    ("GET", "/Users?count=many", None, 400, "invalidValue"),
    ("GET", "/Users/none", None, 404, None),
    ("GET", "/Groups/none", None, 404, None),
    ("GET", "/Groups/{alice}", None, 404, None),
    ("GET", "/Schemas/none", None, 404, None),
    ("POST", "/Bulk", {}, 404, None),
    ("DELETE", "/Users", None, 404, None),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "kind"), BAD)
async def test_a_bad_request_gets_an_error_in_the_shape_of_scim_and_changes_nothing(
    method: str, path: str, body: Any, status: int, kind: str | None
) -> None:
    async with served() as scim:
        ids = {name: await scim.add_user(name) for name in ("alice", "bob")}
        await scim.add_group("research", ids["alice"])
        before = await scim.store.load()
        for name, identifier in ids.items():
            path = path.replace(f"{{{name}}}", identifier)
        refused = await scim.ask(method, path, body)

        assert (status, kind) == error(refused), refused.text
        assert before == await scim.store.load()


@pytest.mark.parametrize("token", [None, "", "wrong", OKTA + "x", OKTA.upper()])
@pytest.mark.parametrize("path", ["/Users", "/Users/x", "/ServiceProviderConfig", "/other"])
async def test_every_route_needs_a_token(token: str | None, path: str) -> None:
    async with served() as scim:
        assert (401, None) == error(await scim.ask("GET", path, token=token))


async def test_an_issuer_does_not_see_or_change_what_another_has() -> None:
    async with served() as scim:
        alice = await scim.add_user("alice")
        group = await scim.add_group("research", alice)
        outcomes = [
            (await scim.ask(method, path, body, token=ENTRA)).status_code
            for method, path, body in (
                ("GET", f"/Users/{alice}", None),
                ("GET", f"/Groups/{group}", None),
                ("DELETE", f"/Users/{alice}", None),
                ("PUT", f"/Users/{alice}", {"userName": "eve"}),
                ("PUT", f"/Groups/{group}", {"displayName": "x"}),
                ("POST", "/Groups", {"displayName": "mine", "members": [{"value": alice}]}),
                ("POST", "/Users", {"userName": "alice"}),
            )
        ]
        listed = await scim.ask("GET", "/Groups", token=ENTRA)

        assert [404, 404, 404, 404, 404, 400, 201] == outcomes
        assert 0 == listed.json()["totalResults"]
        assert {alice} == await scim.members(group)


async def test_concurrent_changes_of_a_group_all_take_effect() -> None:
    async with served() as scim:
        users = [await scim.add_user(f"user-{number}") for number in range(4)]
        group = await scim.add_group("research")

        async def join(user: str) -> int:
            operation = {"op": "add", "path": "members", "value": [{"value": user}]}
            return (await scim.patch(f"/Groups/{group}", operation)).status_code

        assert [200] * 4 == await asyncio.gather(*map(join, users))
        assert set(users) == await scim.members(group)


async def test_the_server_describes_itself() -> None:
    async with served() as scim:
        configuration = await scim.get("/ServiceProviderConfig")
        schemas, types = await scim.get("/Schemas"), await scim.get("/ResourceTypes")

        assert (True, True, False) == tuple(configuration[each]["supported"] for each in ("patch", "filter", "bulk"))
        assert [USER_SCHEMA, GROUP_SCHEMA] == [each["id"] for each in schemas["Resources"]]
        assert ["/Users", "/Groups"] == [each["endpoint"] for each in types["Resources"]]
        assert schemas["Resources"][0] == await scim.get(f"/Schemas/{USER_SCHEMA}")
        assert types["Resources"][1] == await scim.get("/ResourceTypes/Group")


async def test_changes_are_in_the_audit_log() -> None:
    async with served() as scim:
        alice = await scim.add_user("alice")
        await scim.patch(f"/Users/{alice}", {"op": "replace", "value": {"active": False}})
        await _repeat_without_effect(scim, alice)
        entry = (await scim.store.audit()).items[0]

        assert ("scim:okta", "issuer", "update", "user", alice) == (
            *(entry.who, entry.role, entry.action, entry.kind),
            entry.id,
        )
        assert {"userName": "alice", "active": True} == entry.before
        assert {"userName": "alice", "active": False} == entry.after
        assert 2 == len((await scim.store.audit()).items)


async def _repeat_without_effect(scim: Served, user: str) -> None:
    await scim.patch(f"/Users/{user}", {"op": "replace", "value": {"active": False}})


async def test_a_body_that_is_too_long_or_of_another_type_is_refused() -> None:
    async with served() as scim:
        headers = {"authorization": f"Bearer {OKTA}", "content-type": "application/json"}
        long = await scim.http.post("/scim/v2/Users", headers=headers, content=b" " * (2**20 + 1))
        deep = await scim.http.post("/scim/v2/Users", headers=headers, content=b"[" * 100_000)
        form = await scim.http.post("/scim/v2/Users", headers={**headers, "content-type": "text/plain"}, content=b"{}")

        assert [413, 400, 415] == [error(each)[0] for each in (long, deep, form)]
