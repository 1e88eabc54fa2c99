"""The session that a body names."""

import pytest

from gateway.protocol.errors import InvalidField
from gateway.protocol.json_fields import decode_any_chat
from gateway.protocol.session_field import has_session_field, session_field_of


def test_a_body_can_name_its_session() -> None:
    body = decode_any_chat(b'{"model": "m", "session_id": "s"}')

    assert ("s", True) == (session_field_of(body), has_session_field(body))


@pytest.mark.parametrize(
    ("said", "has"), [(b"", False), (b', "session_id": null', True), (b', "session_id": ""', True)]
)
def test_a_session_may_be_missing_or_empty(said: bytes, has: bool) -> None:
    body = decode_any_chat(b'{"model": "m"' + said + b"}")

    assert (None, has) == (session_field_of(body), has_session_field(body))


def test_a_session_that_is_no_string_is_refused() -> None:
    with pytest.raises(InvalidField, match="'session_id' must be a string"):
        session_field_of(decode_any_chat(b'{"model": "m", "session_id": 7}'))
