import json
from typing import Any

import pytest
from fastapi import FastAPI

from gateway.api import models, probes
from gateway.api.openapi import describe
from gateway.protocol.endpoints.endpoint import FORM
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import InvalidField
from tests.gateway.protocol.endpoints.test_table import FORM_TYPE

WHOLE = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "input": "Hi", "prompt": "Hi"}


def described() -> dict[str, Any]:
    api = FastAPI(title="Warmgate", version="1")
    api.include_router(models.router)
    api.include_router(probes.router)
    describe(api, ENDPOINTS.values())
    return api.openapi()


def test_what_workers_answer_is_described_beside_what_the_gateway_answers() -> None:
    """Every path of the table, and FastAPI's own."""
    paths = described()["paths"]

    assert {*ENDPOINTS, "/v1/models", "/readyz"} <= set(paths)
    assert all(paths[path]["post"]["summary"] for path in ENDPOINTS)


def test_the_description_is_made_once() -> None:
    """It is the same for everybody who asks."""
    api = FastAPI()
    describe(api, ENDPOINTS.values())

    assert api.openapi() is api.openapi()


def test_errors_are_described_as_they_are_reported() -> None:
    """In OpenAI's shape, in Anthropic's below /v1/messages, and never in FastAPI's."""
    document = described()
    operations = [(path, operation) for path, ways in document["paths"].items() for operation in ways.values()]
    for path, operation in operations:
        shape = "AnthropicError" if path.startswith("/v1/messages") else "Error"
        schema = operation["responses"]["4XX"]["content"]["application/json"]["schema"]

        assert {"$ref": f"#/components/schemas/{shape}"} == schema
        assert "422" not in operation["responses"]
    assert "HTTPValidationError" not in document["components"]["schemas"]


@pytest.mark.parametrize("path", [path for path, endpoint in ENDPOINTS.items() if endpoint.media != FORM])
def test_a_required_field_is_one_that_the_gateway_insists_on(path: str) -> None:
    """Without it a body is refused, and the refusal names it."""
    endpoint = ENDPOINTS[path]
    for name in endpoint.required:
        messages: list[Any] = [WHOLE["messages"]] if path.endswith("/batch") else WHOLE["messages"]  # type: ignore[assignment]
        body = {key: value for key, value in {**WHOLE, "messages": messages}.items() if key != name}
        with pytest.raises(InvalidField) as refusal:
            endpoint.parse(json.dumps(body).encode(), b"application/json")

        assert name == refusal.value.param


def test_a_form_is_described_as_one() -> None:
    """With the same required field."""
    content = described()["paths"]["/v1/audio/transcriptions"]["post"]["requestBody"]["content"]

    assert ["model"] == content["multipart/form-data"]["schema"]["required"]
    with pytest.raises(InvalidField):
        ENDPOINTS["/v1/audio/transcriptions"].parse(b"--b0--\r\n", FORM_TYPE)
