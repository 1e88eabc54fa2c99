from typing import Any

import pytest

from simulator.errors import ApiError, Dialect, EngineDead, error_shape, event_error_shape

CHAT = "/v1/chat/completions"
NO = ApiError(404, "no", param="n")
NESTED = {"error": {"message": "no", "type": "NotFoundError", "param": "n", "code": 404}}
FLAT = {"object": "error", "message": "no", "type": "NotFoundError", "param": "n", "code": 404}
DYNAMO = {"message": "no", "type": "Not Found", "code": 404}
ANTHROPIC = {"type": "error", "error": {"type": "NotFoundError", "message": "no"}}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (502, "InternalServerError"),
        (503, "ServiceUnavailableError"),
    ],
)
def test_the_type_of_an_error(status: int, kind: str) -> None:
    """It follows from the status, unless it is given."""
    assert kind == ApiError(status, "no").kind
    assert "invalid_request_error" == ApiError(status, "no", kind="invalid_request_error").kind


def test_a_dead_engine() -> None:
    """It is an internal error of the server that lives on."""
    assert (500, "InternalServerError") == (EngineDead().status, EngineDead().kind)


@pytest.mark.parametrize(
    ("dialect", "path", "expected"),
    [
        ("vllm", CHAT, NESTED),
        ("vllm", "/v1/messages", ANTHROPIC),
        ("vllm", "/v1/messages/count_tokens", ANTHROPIC),
        ("sglang", CHAT, FLAT),
        ("sglang", "/v1/responses", NESTED),
        ("dynamo", CHAT, DYNAMO),
        ("dynamo", "/v1/responses", DYNAMO),
    ],
)
def test_the_shape_of_an_answer(dialect: Dialect, path: str, expected: dict[str, Any]) -> None:
    """Each engine has its own, Anthropic's API another."""
    assert expected == error_shape(dialect, path)(NO)


@pytest.mark.parametrize(
    ("dialect", "path", "expected"),
    [
        ("vllm", CHAT, NESTED),
        ("vllm", "/v1/messages", ANTHROPIC),
        ("sglang", CHAT, {"error": FLAT}),
        ("sglang", "/v1/responses", NESTED),
        ("dynamo", CHAT, {"error": DYNAMO}),
    ],
)
def test_the_shape_of_an_event(dialect: Dialect, path: str, expected: dict[str, Any]) -> None:
    """In a stream the flat ones come under `error`."""
    assert expected == event_error_shape(dialect, path)(NO)


def test_a_status_without_a_name() -> None:
    """It can be written as well."""
    assert "Error" == error_shape("dynamo", CHAT)(ApiError(599, "no"))["type"]
