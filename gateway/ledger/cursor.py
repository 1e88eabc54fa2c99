"""Pages of something long, and the place where the next one begins."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from gateway.errors import InvalidField

T = TypeVar("T")

Ordinal = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number in a cursor, which anybody may have written: no more than what SQLite and Redis take."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A page may hold fewer items than were asked for, even none, and yet not be the last: that is what *next* says."""

    items: Sequence[T]
    next: str | None
    """Cursor of the page behind it; None: there is none."""


def cursor_of(*place: str | int) -> str:
    """Opaque to callers, and free of characters that a URL would escape."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode("ascii")


def place_of(cursor: str, shape: type[T]) -> T:
    """What `cursor_of` was given, as *shape*, a type of tuple such as ``tuple[str, Ordinal]``.

    Raises:
        InvalidField: it is no cursor of this list.
    """
    try:
        raw: Any = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=shape)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InvalidField("This is not a cursor of this list", param="cursor") from None
