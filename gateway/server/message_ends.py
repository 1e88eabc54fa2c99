"""Where heads and bodies of requests end in what a client sends.

The parser does not say where in a piece a request ends and the next one begins. With what is found here it is given
each in a piece of its own. Only what is well formed is read rightly: the parser sees the same bytes, and refuses what
is not before more is asked here.
"""

import re
from typing import Final

_END_OF_HEAD: Final = b"\r\n\r\n"
_LINE_END: Final = 2  # bytes
_MAX_LINE: Final = 64  # bytes kept of a line that is not complete; a size has 16 digits, but for zeros before them

_LINE_REST: Final = rb"(?:;[^\r\n]*+)?+\r\n"
_SMALL_CHUNKS: Final = re.compile(
    rb"(?:0*+(?:"
    + b"|".join(rb"[%x%X]%b[\s\S]{%d}" % (size, size, _LINE_REST, size) for size in range(1, 16))
    + rb")\r\n)++"
)
"""As many as there are: in a loop 40,000 chunks of a byte would take 25 ms, and they come in one piece."""


def past_empty_lines(data: bytes, at: int) -> int:
    """Where in *data*, from *at* on, something else stands than the line ends that may come before a request."""
    if data[at] not in b"\r\n":
        return at
    return len(data) - len(data[at:].lstrip(b"\r\n"))


class MessageEnds:
    """The ends of the heads and bodies of one connection, which come one after the other."""

    __slots__ = ("_is_chunked", "_is_trailer", "_left", "_line", "_tail")

    def __init__(self) -> None:
        self._tail = b""  # of a head that is not complete: with it the end of the head may begin
        self._is_chunked = False
        self._left = 0  # bytes that are still to come: of a body with a length, or of a chunk and its line end
        self._line = b""  # between chunks, that is not complete
        self._is_trailer = False

    def head_in(self, data: bytes, at: int) -> int:
        """Where the head that goes on at *at* ends; the end of *data* where it does not."""
        tail = self._tail
        if tail:
            found = (tail + data[at : at + len(_END_OF_HEAD) - 1]).find(_END_OF_HEAD)
            if found >= 0:
                self._tail = b""
                return at + found + len(_END_OF_HEAD) - len(tail)
        found = data.find(_END_OF_HEAD, at)
        if found >= 0:
            self._tail = b""
            return found + len(_END_OF_HEAD)
        self._tail = (tail + data[max(at, len(data) - len(_END_OF_HEAD) + 1) :])[1 - len(_END_OF_HEAD) :]
        return len(data)

    def expect_body(self, length: int, *, is_chunked: bool) -> None:
        """A head ended; its body has so many bytes, or chunks."""
        self._left = 0 if is_chunked else length
        self._is_chunked = is_chunked
        self._is_trailer = False
        self._line = b""

    def body_in(self, data: bytes, at: int) -> int:
        """Where the body that goes on at *at* ends, trailers and all; the end of *data* where it does not."""
        if self._is_chunked:
            return self._chunks_in(data, at)
        size, end = len(data), at + self._left
        if at < end <= size:
            return end
        self._left = end - size
        return size

    def _chunks_in(self, data: bytes, at: int) -> int:
        size = len(data)
        while self._left < size - at:
            at += self._left
            self._left = 0
            if not self._line and not self._is_trailer:
                small = _SMALL_CHUNKS.match(data, at)
                at = at if small is None else small.end()
            line_end = data.find(b"\n", at)
            if line_end < 0:
                self._keep(data[at:])
                return size
            line = self._line + data[at:line_end]
            self._line = b""
            at = line_end + 1
            if not self._is_trailer:
                chunk = _size_in(line)
                self._is_trailer = chunk == 0
                self._left = chunk + _LINE_END if chunk else 0
            elif line == b"\r":
                return at
        self._left -= size - at
        return size

    def _keep(self, begun: bytes) -> None:
        """The begin of a line. What is cut off says nothing: extensions of a chunk, the rest of a trailer."""
        line = self._line + begun
        self._line = (line if self._is_trailer else line.lstrip(b"0"))[:_MAX_LINE]


def _size_in(line: bytes) -> int:
    digits = line.rstrip(b"\r").partition(b";")[0]
    try:
        return int(digits, 16)
    except ValueError:  # nothing but zeros, which were not kept; else the parser refuses it
        return 0
