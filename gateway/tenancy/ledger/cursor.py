"""Pages of a long list, and cursors that mark where the next page starts."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from gateway.protocol.errors import InvalidField

T = TypeVar("T")

Ordinal = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Number in a cursor, within the range that both SQLite and Redis accept. Callers can forge cursors."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Page of a list. A page can have fewer items than requested, or no items, without being the last one. Only *next*
    is decisive.
    """

    items: Sequence[T]
    next: str | None
    """Cursor of the next page, or None on the last page."""


def cursor_of(*place: str | int) -> str:
    """Return a cursor for *place* in the list. The text is opaque to callers and needs no escape in a URL."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode("ascii")


def place_of(cursor: str, shape: type[T]) -> T:
    """Return the place that `cursor_of` encoded in *cursor*. *shape* is a tuple type such as ``tuple[str, Ordinal]``.

    Raises:
        InvalidField: if *cursor* does not belong to this list.
    """
    try:
        raw: Any = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=shape)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InvalidField(
            "The cursor does not belong to this list. Start again without a cursor.", param="cursor"
        ) from None
