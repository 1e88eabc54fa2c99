"""Detect where request heads and bodies end in the bytes that a client sends.

The HTTP parser does not report where a request ends within a buffer, so this module splits the buffer first. The split
is correct only for valid requests. The parser sees the same bytes and rejects invalid requests before the next call.
"""

import re
from typing import Final

_END_OF_HEAD: Final = b"\r\n\r\n"
_END_PATTERN: Final = re.compile(_END_OF_HEAD)
"""The pattern skips from one carriage return to the next. For a head of 600 bytes, `bytes.find` takes twice as long."""
_LINE_END: Final = 2  # bytes
_MAX_LINE: Final = 64  # bytes kept of an incomplete line; a size has 16 digits at most, without leading zeros

_LINE_REST: Final = rb"(?:;[^\r\n]*+)?+\r\n"
_SMALL_CHUNKS: Final = re.compile(
    rb"(?:0*+(?:"
    + b"|".join(rb"[%x%X]%b[\s\S]{%d}" % (size, size, _LINE_REST, size) for size in range(1, 16))
    + rb")\r\n)++"
)
"""Pattern for a whole run of small chunks. A loop would take 25 ms for 40,000 chunks of one byte, which can arrive at
once.
"""


def past_empty_lines(data: bytes, at: int) -> int:
    """Return the index of the first byte in *data*, from index *at* on, after any empty lines before a request."""
    if data[at] not in b"\r\n":
        return at
    return len(data) - len(data[at:].lstrip(b"\r\n"))


class MessageEnds:
    """Detector for the ends of request heads and bodies on one connection."""

    __slots__ = ("_is_chunked", "_is_trailer", "_left", "_line", "_tail")

    def __init__(self) -> None:
        self._tail = b""  # last bytes of an incomplete head: its end may begin with them
        self._is_chunked = False
        self._left = 0  # bytes still to come of a body with a length, or of a chunk and its line end
        self._line = b""  # incomplete line between chunks
        self._is_trailer = False

    def head_in(self, data: bytes, at: int) -> int:
        """Return the index at which the request head that continues at index *at* ends, or `len(data)` if the head is
        incomplete.
        """
        tail = self._tail
        if tail:
            found = (tail + data[at : at + len(_END_OF_HEAD) - 1]).find(_END_OF_HEAD)
            if found >= 0:
                self._tail = b""
                return at + found + len(_END_OF_HEAD) - len(tail)
        end = _END_PATTERN.search(data, at)
        if end is not None:
            self._tail = b""
            return end.end()
        self._tail = (tail + data[max(at, len(data) - len(_END_OF_HEAD) + 1) :])[1 - len(_END_OF_HEAD) :]
        return len(data)

    def expect_body(self, length: int, *, is_chunked: bool) -> None:
        """Expect a request body of *length* bytes, or a chunked body if *is_chunked* is true."""
        self._left = 0 if is_chunked else length
        self._is_chunked = is_chunked
        self._is_trailer = False
        self._line = b""

    def body_in(self, data: bytes, at: int) -> int:
        """Return the index at which the request body that continues at index *at* ends, or `len(data)` if the body is
        incomplete. Trailers are part of the body.
        """
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
        """Keep the first bytes of an incomplete line. The other bytes are chunk extensions or trailers, which are
        ignored.
        """
        line = self._line + begun
        self._line = (line if self._is_trailer else line.lstrip(b"0"))[:_MAX_LINE]


def _size_in(line: bytes) -> int:
    digits = line.rstrip(b"\r").partition(b";")[0]
    try:
        return int(digits, 16)
    except ValueError:  # only zeros, which were not kept; anything else is refused by the parser
        return 0
