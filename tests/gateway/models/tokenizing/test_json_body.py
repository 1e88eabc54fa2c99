"""Bodies read for what decides their tokens."""

from typing import Any

import msgspec
import pytest

from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.json_body import decoded, text_or_none

ANYTHING: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()


def test_numbers_are_numbers() -> None:
    """Python's json reads them so, and a template writes them again."""
    assert [1.0, 100000.0, 10**30, -0.0] == decoded(b"[1.0, 1e5, 1000000000000000000000000000000, -0.0]", ANYTHING)


def test_keys_stay_in_their_order() -> None:
    """A key that comes twice stands at its first place with its last value, as in a dict of Python."""
    assert ['{"b": 3, "a": 2}'] == [str(decoded(b'{"b":1,"a":2,"b":3}', ANYTHING)).replace("'", '"')]


@pytest.mark.parametrize("raw", [b"", b"{", b"[NaN]", b"[1e999]", b'["\\ud800"]', b'["\xff"]', b"[" * 5000])
def test_what_cannot_be_read_is_malformed(raw: bytes) -> None:
    """Also what Python's json would take all the same; and the cause, which would hold the body, is not chained."""
    with pytest.raises(Unknowable) as refused:
        decoded(raw, ANYTHING)

    assert "malformed" == refused.value.reason
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_text_is_a_string_or_nothing() -> None:
    """Null passes as None."""
    assert "a" == text_or_none("a")
    assert text_or_none(None) is None
    with pytest.raises(Unknowable, match="malformed"):
        text_or_none(1)
