"""Parses the JSON of a body again, for the fields that decide its tokens.

`gateway.protocol.body` reads only what routing needs and keeps the spelling of numbers; a chat template writes numbers
as Python does, so here they are numbers.
"""

from typing import Any, TypeVar

import msgspec

from gateway.models.tokenizing.exactness import Unknowable

_T = TypeVar("_T")


def decoded(raw: bytes, decoder: "msgspec.json.Decoder[_T]") -> _T:
    """Decode *raw*. O(bytes).

    Raises:
        Unknowable: it is malformed. So is text that only Python's json accepts (NaN, half a surrogate pair).
    """
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unknowable("malformed") from None  # the cause would carry a piece of the body


def text_or_none(value: Any) -> str | None:
    """Return *value* if it is a string or null.

    Raises:
        Unknowable: it is something else.
    """
    if isinstance(value, str | None):
        return value
    raise Unknowable("malformed")
