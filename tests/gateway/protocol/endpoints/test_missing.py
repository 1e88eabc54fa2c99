import pytest

from gateway.protocol.endpoints.missing import missing_endpoint
from gateway.protocol.endpoints.table import ENDPOINTS

BARE = [
    (404, b'{"detail":"Not Found"}'),
    (405, b'{"detail":"Method Not Allowed"}'),
    (404, b""),
    (404, b"<html></html>"),
]


@pytest.mark.parametrize(("status", "body"), BARE)
@pytest.mark.parametrize("path", ENDPOINTS)
def test_the_fault_names_the_model_and_the_endpoint(path: str, status: int, body: bytes) -> None:
    """This holds for every endpoint, and for all answers of engines about a missing route."""
    fault = missing_endpoint(path, "tiny", status, body)

    assert fault is not None
    assert (404, "invalid_request_error", "endpoint_not_supported") == (fault.status, fault.type, fault.code)
    assert fault.message.startswith(f"The model 'tiny' does not serve {path}: its engine has no such endpoint.")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/embeddings", "A model that generates text has /v1/chat/completions and /v1/completions"),
        ("/v1/rerank", "A model that generates text has /v1/chat/completions and /v1/completions"),
        ("/v1/chat/completions", "A pooling model has, depending on its kind, /v1/embeddings"),
        ("/v1/messages", "Use /v1/chat/completions"),
        ("/v1/audio/transcriptions", "Audio needs a speech model"),
    ],
)
def test_it_says_what_to_use(path: str, said: str) -> None:
    """The hint depends on the kind of the endpoint."""
    fault = missing_endpoint(path, "tiny", *BARE[0])

    assert fault is not None
    assert said in fault.message


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"error":{"message":"The model `x` does not exist."}}'),
        (404, b'{"message":"Model not found: x","type":"Not Found","code":404}'),
        (400, b'{"detail":"Not Found"}'),
    ],
)
def test_an_engine_that_gives_a_reason_is_quoted(status: int, body: bytes) -> None:
    """It has the endpoint, and something else is wrong."""
    assert missing_endpoint("/v1/embeddings", "tiny", status, body) is None
