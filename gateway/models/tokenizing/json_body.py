"""JSON parser for the fields of a request body that determine its tokens.

`gateway.protocol.body` parses only the fields that routing needs, and keeps numbers as they are written. Chat templates
write numbers as Python does, so this module parses them.
"""

from typing import Any, TypeVar

import msgspec

from gateway.models.tokenizing.exactness import Unknowable

_T = TypeVar("_T")


def decoded(raw: bytes, decoder: "msgspec.json.Decoder[_T]") -> _T:
    """Parse the JSON body *raw* with *decoder*. O(bytes).

    Raises:
        Unknowable: if *raw* is not valid JSON. NaN and lone surrogates, which Python's json accepts, are not valid.
    """
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unknowable("malformed") from None  # the cause would carry a piece of the body


def text_or_none(value: Any) -> str | None:
    """Return *value* if it is a string or null.

    Raises:
        Unknowable: if *value* has another type.
    """
    if isinstance(value, str | None):
        return value
    raise Unknowable("malformed")
