import json
import re

import pytest

from documentation.reference.example_gateway import openapi


def test_both_documents_are_those_that_the_gateway_serves() -> None:
    assert "/v1/chat/completions" in openapi("/openapi.json")["paths"]
    assert "/admin/v1/teams" in openapi("/admin/v1/openapi.json")["paths"]


@pytest.mark.parametrize("path", ["/openapi.json", "/admin/v1/openapi.json"])
def test_every_object_that_is_referred_to_is_described(path: str) -> None:
    document = openapi(path)
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))

    assert set() == named - document["components"]["schemas"].keys()
