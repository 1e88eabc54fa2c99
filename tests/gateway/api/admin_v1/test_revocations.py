"""/admin/v1/revocations."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.models.registry import Models
from tests.gateway.api.admin_v1.administration import administration
from tests.gateway.api.admin_v1.test_models import of

BODY = {"issuer": "okta", "scope": "session", "value": "s-1", "reason": "lost laptop", "keep_s": 3600}
REVOKED = {
    "object": "revocation",
    "issuer": "okta",
    "scope": "session",
    "value": "s-1",
    "reason": "lost laptop",
    "revoked_at": "2026-11-21T08:00:00Z",
    "expires_at": "2026-11-21T09:00:00Z",
}


def trusting() -> AdminGateway:
    return replace(of(Models()), issuers=frozenset({"okta"}))


async def test_an_operator_revokes_and_an_owner_takes_it_back() -> None:
    async with administration(gateway=trusting()) as admin:
        made = await admin.ask("POST", "/revocations", BODY, who="op")
        identifier = made.json()["id"]
        listed = (await admin.get("/revocations"))["data"]
        deleted = await admin.ask("DELETE", f"/revocations/{identifier}")
        gone = await admin.ask("DELETE", f"/revocations/{identifier}")
        audited = await admin.audited()

        assert (201, {**REVOKED, "id": identifier}) == (made.status_code, made.json())
        assert [made.json()] == listed
        assert (204, 404) == (deleted.status_code, gone.status_code)
        assert {} == admin.directory.access
        assert [("delete", "revocation"), ("create", "revocation")] == [(e["action"], e["kind"]) for e in audited]


async def test_expired_revocations_are_not_listed_and_make_room() -> None:
    async with administration(gateway=trusting()) as admin:
        await admin.ask("POST", "/revocations", BODY)
        admin.clock.now += 3600
        listed = (await admin.get("/revocations"))["data"]
        await admin.ask("POST", "/revocations", {**BODY, "value": "s-2"})

        assert [] == listed
        assert ["s-2"] == [each["value"] for each in (await admin.get("/revocations"))["data"]]
        assert 1 == len(admin.directory.access)


async def test_revoking_twice_renews_the_revocation() -> None:
    async with administration(gateway=trusting()) as admin:
        first = (await admin.ask("POST", "/revocations", BODY)).json()
        admin.clock.now += 60
        second = (await admin.ask("POST", "/revocations", BODY)).json()

        assert first["id"] == second["id"]
        assert "2026-11-21T09:01:00Z" == second["expires_at"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"issuer": "entra"}, "issuer"),
        ({"scope": "everyone"}, "scope"),
        ({"value": ""}, "value"),
        ({"value": "x" * 513}, "value"),
        ({"reason": "x" * 201}, "reason"),
        ({"keep_s": 0}, "keep_s"),
        ({"keep_s": 1e9}, "keep_s"),
        ({"other": 1}, "other"),
    ],
)
async def test_a_body_that_is_not_valid_is_refused_with_its_field(change: dict[str, Any], param: str) -> None:
    async with administration(gateway=trusting()) as admin:
        refused = await admin.ask("POST", "/revocations", {**BODY, **change})

        assert (400, param) == (refused.status_code, refused.json()["error"]["param"])


@pytest.mark.parametrize(
    ("method", "path", "who", "status"),
    [("POST", "/revocations", "vi", 403), ("DELETE", "/revocations/x", "op", 403), ("GET", "/revocations", "vi", 200)],
)
async def test_roles(method: str, path: str, who: str, status: int) -> None:
    async with administration(gateway=trusting()) as admin:
        assert status == (await admin.ask(method, path, BODY if method == "POST" else None, who=who)).status_code


async def test_without_issuers_there_are_no_revocations() -> None:
    async with administration(gateway=of(Models())) as admin:
        assert 404 == (await admin.ask("GET", "/revocations")).status_code
