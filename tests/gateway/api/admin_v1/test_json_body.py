"""Bodies of requests: read within bounds, and only as JSON."""

import json

import pytest

from gateway.api.admin_v1.bodies import TeamState
from gateway.api.admin_v1.json_body import MOST_BYTES, patched, takes
from gateway.protocol.errors import InvalidField
from tests.gateway.api.admin_v1.administration import Administration, fault
from tests.gateway.asgi import Caller

WRITES = [("POST", "/teams"), ("PUT", "/teams/blue"), ("PATCH", "/teams/blue"), ("POST", "/keys/ci/rotate")]


@pytest.mark.parametrize(("method", "path"), WRITES)
@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None])
async def test_only_json_is_taken(admin: Administration, method: str, path: str, media: str | None) -> None:
    """A page of another site can send other types, and none, without asking for leave."""
    headers = {} if media is None else {"content-type": media}
    async with admin.client() as client:
        response = await client.request(method, f"/admin/v1{path}", content=b'{"name": "blue"}', headers=headers)

    assert (415, "unsupported_media_type", None) == fault(response)


@pytest.mark.parametrize(
    "media", ["application/json", "application/json; charset=utf-8", "application/merge-patch+json"]
)
async def test_json_goes_by_several_names(admin: Administration, media: str) -> None:
    async with admin.client() as client:
        response = await client.post("/admin/v1/teams", content=b'{"name": "blue"}', headers={"content-type": media})

    assert 201 == response.status_code


@pytest.mark.parametrize(("method", "path"), WRITES)
async def test_a_body_that_is_too_large_is_refused(admin: Administration, method: str, path: str) -> None:
    headers = {"content-type": "application/json"}
    async with admin.client() as client:
        response = await client.request(method, f"/admin/v1{path}", content=b" " * (MOST_BYTES + 1), headers=headers)

    assert (413, "request_too_large", None) == fault(response)


@pytest.mark.parametrize(("method", "path"), [*WRITES, ("PATCH", "/keys/ci")])
@pytest.mark.parametrize("content", [b"{", b"[]", b"null", b"[" * 100_000, b'{"a":' * 30_000, b'"\\ud800"', b"\xff"])
async def test_what_is_no_object_is_refused(admin: Administration, method: str, path: str, content: bytes) -> None:
    """However deep it is."""
    headers = {"content-type": "application/json"}
    async with admin.client() as client:
        response = await client.request(method, f"/admin/v1{path}", content=content, headers=headers)

    assert (400, None) == fault(response)[:2]


async def test_a_patch_names_fields_that_there_are(admin: Administration) -> None:
    """A caller that asks for a field that there is not is not notified of a role, but of the slip of the pen."""
    response = await admin.ask("PATCH", "/teams/blue", {"wieght": 2}, who="op")

    assert (400, None, "wieght") == fault(response)


def test_a_patch_is_looked_at_as_a_whole() -> None:
    with pytest.raises(InvalidField) as caught:
        patched(TeamState, {"weight": 1.0, "limits": {"concurrent": 3}}, {"limits": {"concurrent": "x"}})

    assert "limits.concurrent" == caught.value.param


def test_null_brings_the_default_back() -> None:
    state = patched(
        TeamState,
        {"weight": 3.0, "limits": {"concurrent": 3, "tokens_per_day": 9}},
        json.loads("""
        {"weight": null, "limits": {"concurrent": null}}
    """),
    )

    assert (1.0, None, 9) == (state.weight, state.limits.concurrent, state.limits.tokens_per_day)


async def test_a_caller_that_leaves_in_the_middle_is_no_error(admin: Administration) -> None:
    """No one is there to be reported."""
    headers = [(b"authorization", b"Bearer s3cret-of-ow"), (b"content-type", b"application/json")]
    caller = Caller(b'{"na', path="/admin/v1/teams", headers=headers, finishes_body=False)
    caller.leave()
    await caller.call(admin.api)

    assert 200 == caller.status
    assert [] == (await admin.get("/teams"))["data"]


def test_a_body_is_described_by_its_name() -> None:
    assert {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TeamState"}}},
        }
    } == takes(TeamState)
