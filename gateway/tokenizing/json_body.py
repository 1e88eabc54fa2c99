"""Reads the JSON of a body anew, for what decides its tokens.

`gateway.body` reads only what routing needs and lets numbers keep their spelling; a chat template writes numbers as
Python does, so here they are numbers.
"""

from typing import Any, TypeVar

import msgspec

from gateway.tokenizing.exactness import Unknowable

_T = TypeVar("_T")


def decoded(raw: bytes, decoder: "msgspec.json.Decoder[_T]") -> _T:
    """*raw* as *decoder* reads it. O(bytes).

    Raises:
        Unknowable: it cannot. What Python's json would take all the same (NaN, half a surrogate pair) is among it.
    """
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unknowable("malformed") from None  # the cause would carry a piece of the body


def text_or_none(value: Any) -> str | None:
    """*value*, which is to be a string or null.

    Raises:
        Unknowable: it is something else.
    """
    if isinstance(value, str | None):
        return value
    raise Unknowable("malformed")
