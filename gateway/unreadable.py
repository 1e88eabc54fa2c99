"""What reading JSON or MessagePack that is none, or not of the shape expected, raises."""

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
