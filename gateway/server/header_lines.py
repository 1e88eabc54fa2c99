"""Names of request headers and lines of response headers. Most come again and again: they are made and checked once."""

from typing import Final, cast

MOST: Final = 512
"""Lines, or names, that are kept; then all are forgotten, also those that never come again."""
_LONGEST_NAME: Final = 64
"""Bytes of a name that is kept; those that clients send have less."""

_PASSING: Final[dict[bytes, bytes]] = {
    name: name + b": " for name in (b"x-request-id", b"request-id", b"x-warmgate-hit-tokens")
}
"""How lines begin whose values hardly ever come again: kept, they would push out the others."""
_NUL: Final = 0
_LF: Final = 10
_CR: Final = 13


class HeaderLines:
    """Shared by all connections of a server."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[object, bytes] = {}

    def known(self, header: object) -> bytes | None:
        """The line of *header*, a tuple of name and value, if it is kept: fastest for the one that it was made of."""
        return self._known.get(header)

    def of(self, header: object) -> bytes:
        """The line of a header, with its end: to be asked where `known` does not know it.

        Raises:
            RuntimeError: name or value has a line end or a NUL in it, and would be taken for more than one header.
        """
        name, value = cast("tuple[bytes, bytes]", header)
        begins = _PASSING.get(name)
        line = (name + b": " if begins is None else begins) + value
        if _LF in line or _CR in line or _NUL in line:
            raise RuntimeError("a header has a line end or a NUL in it")
        line += b"\r\n"
        if begins is None:
            if len(self._known) == MOST:
                self._known.clear()
            self._known[header] = line
        return line


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
