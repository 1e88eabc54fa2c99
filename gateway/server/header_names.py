"""Names of headers that came before, which hardly ever differ from one request to the next."""

from typing import Final

MOST: Final = 512
"""Names that are kept; then all are forgotten, also those that never come again."""
_LONGEST_NAME: Final = 64
"""Bytes of a name that is kept; those that clients send have less."""


class HeaderNames:
    """Shared by all connections of a server: for equal names the same object, which knows its hash already."""

    __slots__ = ("_lower",)

    def __init__(self) -> None:
        self._lower: dict[bytes, bytes] = {}

    def lower(self, name: bytes) -> bytes:
        """*name* in lower case."""
        known = self._lower.get(name)
        return self._made(name) if known is None else known

    def _made(self, name: bytes) -> bytes:
        lower = name.lower()
        if len(name) <= _LONGEST_NAME:
            if len(self._lower) == MOST:
                self._lower.clear()
            self._lower[name] = lower
        return lower
