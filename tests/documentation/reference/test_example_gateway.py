from documentation.reference.example_gateway import openapi


def test_both_documents_are_those_that_the_gateway_serves() -> None:
    assert "/v1/chat/completions" in openapi("/openapi.json")["paths"]
    assert "/admin/v1/teams" in openapi("/admin/v1/openapi.json")["paths"]
