import pytest

from gateway.protocol.endpoints.tokens import parse_tokens
from gateway.protocol.errors import MalformedBody


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"tiny","prompt":"Hello"}',
        b'{"model":"tiny","messages":[{"role":"user","content":"Hello"}],"tools":[]}',
        b'{"model":"tiny","tokens":[1,2,3]}',
    ],
)
def test_any_worker_can_count_tokens(raw: bytes) -> None:
    """There is no prompt to route by, nothing is generated and no cache is filled."""
    read = parse_tokens(raw)

    assert ("tiny", False, 0, b"") == (read.model, read.streams, read.max_tokens, read.prompt)
    assert (False, False) == (read.reads_cache, read.writes_cache)


def test_the_model_may_be_missing() -> None:
    """A gateway that serves one knows which is meant."""
    assert "" == parse_tokens(b'{"prompt":"Hello"}').model


def test_what_is_no_json_object_is_malformed() -> None:
    """The error is the same as for chats."""
    with pytest.raises(MalformedBody):
        parse_tokens(b'"tiny"')
