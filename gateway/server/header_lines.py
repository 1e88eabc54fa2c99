"""Names of request headers and lines of response headers. Most come again and again: they are made and checked once."""

from typing import Final, cast

MOST: Final = 512
"""Lines, or names, that are kept; then all are forgotten, also those that never come again."""
_LONGEST_NAME: Final = 64
"""Bytes of a name that is kept; those that clients send have less."""
_LONGEST_LINE: Final = 1024
"""Bytes of a line that is kept; a worker may send ones that are as long as a whole head."""

LINE_BEGINS: Final[dict[bytes, bytes]] = {
    name: name + b": "
    for name in (
        # Looked at each time, for they frame the body or end the connection
        b"connection",
        b"content-length",
        b"transfer-encoding",
        # Whose values hardly ever come again: kept, they would push out the others
        b"request-id",
        b"x-request-id",
        b"x-ratelimit-remaining-requests",
        b"x-ratelimit-remaining-tokens",
        b"x-ratelimit-reset-requests",
        b"x-ratelimit-reset-tokens",
        b"x-warmgate-hit-tokens",
    )
}
"""Of headers that are not kept, by name. Told apart first: what is looked up in vain was hashed in vain."""
_NUL: Final = 0
_LF: Final = 10
_CR: Final = 13


class HeaderLines:
    """Shared by all connections of a server."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[object, bytes] = {}

    def line(self, header: object) -> bytes:
        """The line of *header*, a tuple of name and value, with its end: fastest for the one that it was made of.

        Raises:
            RuntimeError: as `line_of`.
        """
        known = self._known.get(header)
        return self._made(header) if known is None else known

    def _made(self, header: object) -> bytes:
        name, value = cast("tuple[bytes, bytes]", header)
        line = line_of(name + b": ", value)
        if len(line) <= _LONGEST_LINE:
            if len(self._known) == MOST:
                self._known.clear()
            self._known[header] = line
        return line


def line_of(begin: bytes, value: bytes) -> bytes:
    """A line, with its end, that begins with a name and a colon.

    Raises:
        RuntimeError: it has another line end or a NUL in it, and would be taken for more than one header.
    """
    line = begin + value
    if _LF in line or _CR in line or _NUL in line:
        raise RuntimeError("a header has a line end or a NUL in it")
    return line + b"\r\n"


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
