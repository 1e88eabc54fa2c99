"""/admin/v1/openapi.json."""

import asyncio
from typing import Any

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.app.mapping.surroundings import configured_models
from gateway.settings import build
from tests.gateway.api.admin_v1.administration import Administration, administration
from tests.gateway.examples import a_draining, the_models
from tests.gateway.tenancy.ledger.examples import an_entry


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    async def found() -> Any:
        settings = build({"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}]}, {})
        models = the_models()
        gateway = AdminGateway(models, lambda: configured_models(settings), draining=a_draining(models))
        async with administration(gateway=gateway) as admin, admin.client(None) as client:
            return (await client.get("/admin/v1/openapi.json")).json()

    described: dict[str, Any] = asyncio.run(found())
    return described


def references(value: Any) -> set[str]:
    """Names of all schemas that *value* refers to."""
    if isinstance(value, dict):
        own = {value["$ref"].removeprefix("#/components/schemas/")} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*(references(inner) for inner in value))
    return set()


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_schema_that_is_named_is_there(document: dict[str, Any]) -> None:
    assert set() == references(document) - document["components"]["schemas"].keys()


def test_every_operation_reports_errors_in_our_shape(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    assert [] == [name for _, name, operation in operations(document) if "422" in operation["responses"]]
    assert [] == [name for _, name, operation in operations(document) if "4XX" not in operation["responses"]]
    assert not {"HTTPValidationError", "ValidationError"} & schemas.keys()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("post", "/teams", "TeamBody"),
        ("put", "/teams/{name}", "TeamPut"),
        ("patch", "/teams/{name}", "TeamState"),
        ("post", "/keys", "KeyBody"),
        ("patch", "/keys/{key_id}", "KeyState"),
        ("post", "/keys/{key_id}/rotate", "RotationBody"),
        ("post", "/workers/drain", "DrainBody"),
        ("post", "/workers/undrain", "WorkerBody"),
    ],
)
def test_bodies_are_described(document: dict[str, Any], method: str, path: str, body: str) -> None:
    described = document["paths"][f"/admin/v1{path}"][method]["requestBody"]["content"]["application/json"]["schema"]
    schema = document["components"]["schemas"][body]

    assert {"$ref": f"#/components/schemas/{body}"} == described
    assert schema["additionalProperties"] is False


def test_only_the_answers_that_make_a_secret_have_one(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    assert ["NewKeyResponse"] == [name for name, schema in schemas.items() if "secret" in schema.get("properties", {})]


def test_both_ways_to_bring_a_key_are_described(document: dict[str, Any]) -> None:
    assert {"bearer", "x-api-key"} == document["components"]["securitySchemes"].keys()
    assert [{"bearer": []}, {"x-api-key": []}] == document["security"]


async def test_answers_have_the_fields_that_are_described(admin: Administration) -> None:
    """No more, no less; tests/fuzz/test_admin.py looks at their values."""
    await admin.book(an_entry())
    team = await admin.make("teams", name="blue")
    key = await admin.make("keys", team="blue")
    usage = await admin.get("/usage")
    (record,) = (await admin.get("/usage/records"))["data"]
    (entry, _) = await admin.audited()
    schemas = admin.api.openapi()["components"]["schemas"]
    found = {"TeamResponse": team, "NewKeyResponse": key, "UsageResponse": usage, "SumResponse": usage["total"]}
    found |= {"RecordResponse": record, "AuditResponse": entry}

    described = {name: set(schemas[name]["properties"]) for name in found}
    assert described == {name: set(each) for name, each in found.items()}
