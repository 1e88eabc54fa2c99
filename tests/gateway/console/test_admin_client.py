"""Facts about the client of the admin API inside the process."""

import pytest

from gateway.api.admin_access import AdminKey
from gateway.console.admin_client import AdminClient, AdminRefused
from gateway.server.asgi import Message
from tests.gateway.api.admin_v1.administration import KEYS, administration

VIEWER, OPERATOR, OWNER = KEYS


async def test_objects_are_created_and_listed_as_by_the_admin_api() -> None:
    async with administration() as admin:
        client = AdminClient(admin.api, OWNER)
        for name in ("blue", "green", "red"):
            await client.request("POST", ("teams",), body={"name": name})

        assert ["blue", "green", "red"] == [each["name"] for each in await client.listed("teams")]
        assert ["blue", "green"] == [each["name"] for each in await client.listed("teams", most=2)]
        assert "green" == (await client.get("teams", "green"))["name"]
        assert {} == await client.request("DELETE", ("teams", "green"))
        assert [("ow", "delete"), ("ow", "create")] == [
            (entry["who"], entry["action"]) for entry in (await admin.audited())[:2]
        ]


async def test_the_role_of_the_key_applies() -> None:
    async with administration() as admin:
        with pytest.raises(AdminRefused) as caught:
            await AdminClient(admin.api, VIEWER).request("POST", ("teams",), body={"name": "blue"})

    assert (403, "role_not_sufficient") == (caught.value.status, caught.value.code)


async def test_a_foreign_key_is_refused() -> None:
    async with administration() as admin:
        with pytest.raises(AdminRefused) as caught:
            await AdminClient(admin.api, AdminKey("x", "owner", "wrong")).get("teams")

    assert 401 == caught.value.status


@pytest.mark.parametrize("name", ["a/b", "../keys", "blue/rotate"])
async def test_a_name_leads_to_no_other_route(name: str) -> None:
    async with administration() as admin:
        with pytest.raises(AdminRefused) as caught:
            await AdminClient(admin.api, OWNER).get("teams", name)

    assert 404 == caught.value.status


async def test_a_repeated_request_has_the_same_answer() -> None:
    async with administration() as admin:
        client = AdminClient(admin.api, OWNER)
        await client.request("POST", ("teams",), body={"name": "blue"})
        secrets = [
            (await client.request("POST", ("keys",), body={"team": "blue"}, idempotency_key="0123456789abcdef"))[
                "secret"
            ]
            for _ in range(2)
        ]

        assert secrets[0] == secrets[1]
        assert 1 == len(await client.listed("keys"))


async def test_an_answer_can_be_passed_on_in_pieces() -> None:
    messages: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    async with administration() as admin:
        await AdminClient(admin.api, VIEWER).forward(("usage",), {"month": "2026-11"}, receive, send)

    assert 200 == messages[0]["status"]
    assert b'"object":"usage"' in b"".join(message.get("body", b"") for message in messages)


async def test_a_person_without_an_admin_key_acts_with_the_role_of_the_login() -> None:
    person = AdminKey("oidc:okta:alice", "owner", "random", is_person=True)
    async with administration() as admin:
        await AdminClient(admin.api, person).request("POST", ("teams",), body={"name": "blue"})
        with pytest.raises(AdminRefused) as caught:
            await AdminClient(admin.api, AdminKey("oidc:okta:bob", "viewer", "random", is_person=True)).request(
                "POST", ("teams",), body={"name": "red"}
            )

        assert (403, "role_not_sufficient") == (caught.value.status, caught.value.code)
        assert [("oidc:okta:alice", "owner")] == [(each["who"], each["role"]) for each in await admin.audited()]


async def test_a_header_does_not_name_a_person() -> None:
    """Only a part of this process sets the scope of a request."""
    async with administration() as admin, admin.client(None) as client:
        headers = {"warmgate.admin_key": "x", "warmgate-admin-key": "x", "authorization": "Bearer "}

        assert 401 == (await client.get("/admin/v1/teams", headers=headers)).status_code
