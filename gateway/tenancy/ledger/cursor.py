"""Pages of a long list, and the place where the next page starts."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from gateway.protocol.errors import InvalidField

T = TypeVar("T")

Ordinal = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Number in a cursor, which anybody may have written: no more than SQLite and Redis accept."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A page may hold fewer items than asked for, even none, without being the last: *next* decides."""

    items: Sequence[T]
    next: str | None
    """Cursor of the next page; None: this is the last one."""


def cursor_of(*place: str | int) -> str:
    """Return a text that is opaque to callers and needs no escapes in a URL."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode("ascii")


def place_of(cursor: str, shape: type[T]) -> T:
    """Return what `cursor_of` was given, as *shape*, a type of tuple such as ``tuple[str, Ordinal]``.

    Raises:
        InvalidField: it is not a cursor of this list.
    """
    try:
        raw: Any = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=shape)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InvalidField("The cursor does not belong to this list", param="cursor") from None
