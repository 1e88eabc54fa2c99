"""Lines of response headers. Most come again and again, so they are put together and checked once."""

MOST = 512
"""Lines that are kept; then all are forgotten, also those of values that never come again."""


class HeaderLines:
    """Shared by all connections of a server."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], bytes] = {}

    def of(self, name: bytes, value: bytes) -> bytes:
        """The line of a header, with its end.

        Raises:
            RuntimeError: name or value has a line end or a NUL in it, and would be taken for more than one header.
        """
        header = (name, value)
        line = self._known.get(header)
        if line is None:
            line = name + b": " + value + b"\r\n"
            if len(line) - len(line.translate(None, b"\r\n\0")) != 2:
                raise RuntimeError("a header has a line end or a NUL in it")
            if len(self._known) == MOST:
                self._known.clear()
            self._known[header] = line
        return line
