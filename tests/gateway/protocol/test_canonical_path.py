import pytest

from gateway.protocol.canonical_path import canonical, raw

SERVED = {"/v1/chat/completions", "/v1/models", "/score", "/v1/score", "/metrics"}


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/chat/completions/", "/v1/chat/completions"),
        ("//v1/chat//completions//", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1//v1/models/", "/v1/models"),
        ("/models", "/v1/models"),
        ("/models/org/tiny", "/v1/models/org/tiny"),
        ("/responses/resp_1/cancel", "/v1/responses/resp_1/cancel"),
        ("/score", "/score"),
        ("/metrics/", "/metrics"),
        ("/", "/"),
        ("//", "/"),
        ("/v1/", "/v1"),
        ("/nowhere", "/nowhere"),
        ("/v2/chat/completions", "/v2/chat/completions"),
        ("/V1/chat/completions", "/V1/chat/completions"),
        ("/v1/../admin", "/v1/../admin"),
    ],
)
def test_a_path_has_one_spelling(typed: str, path: str) -> None:
    """The result is a path of the table for all base URLs; a canonical path stays."""
    assert path == canonical(typed, SERVED)
    assert path == canonical(path, SERVED)


def test_a_path_is_written_as_in_a_request_line() -> None:
    assert b"/v1/models/a%20b%25%C3%A9%3F" == raw("/v1/models/a b%é?")
