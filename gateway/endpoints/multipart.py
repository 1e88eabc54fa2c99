"""The parts of a ``multipart/form-data`` body (RFC 7578), as places in the bytes that came.

A part may be a file of any size: nothing is copied, so that the body can go on as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message

from gateway.errors import MalformedBody

_MOST_PARTS = 1000
"""As Starlette's form parser has it by default."""
_LARGEST_HEAD_BYTES = 16 * 1024
_LONGEST_BOUNDARY = 70  # RFC 2046, 5.1.1

_rest_of_line = re.compile(rb"[ \t]*\r\n").match


@dataclass(frozen=True, slots=True)
class Part:
    """One field of the form, or one file; its value is ``raw[start:end]``."""

    name: str
    is_file: bool
    start: int
    end: int


def parts_of(raw: bytes, content_type: bytes) -> list[Part]:
    """The parts of *raw* in their order. O(bytes), in C: a search for the boundary.

    Raises:
        MalformedBody: *content_type* names no boundary, or *raw* is not what it announces.
    """
    parts: list[Part] = []
    begin: int | None = None
    for start, end in _delimiters(raw, _boundary_in(content_type)):
        if begin is not None:
            parts.append(_part(raw, begin, start))
        if end is None:
            return parts
        if len(parts) == _MOST_PARTS:
            raise MalformedBody(f"The multipart body has more than {_MOST_PARTS} parts")
        begin = end
    if begin is None:
        raise MalformedBody("The multipart body has no line with the boundary that the content-type names")
    raise MalformedBody("The multipart body ends before its closing boundary")


def replaced(raw: bytes, parts: list[Part], value: bytes) -> bytes:
    """*raw* with *value* for that of each of *parts*, which are some of its own. One copy."""
    view = memoryview(raw)
    pieces: list[bytes | memoryview] = []
    kept = 0
    for part in parts:
        pieces += (view[kept : part.start], value)
        kept = part.end
    return b"".join([*pieces, view[kept:]])


def _boundary_in(content_type: bytes) -> bytes:
    boundary = _parameter(content_type, "boundary")
    if not boundary or len(boundary) > _LONGEST_BOUNDARY:
        raise MalformedBody(f"The content-type must name a boundary of 1 to {_LONGEST_BOUNDARY} characters")
    return boundary.encode("latin-1")


def _delimiters(raw: bytes, boundary: bytes) -> Iterator[tuple[int, int | None]]:
    """Where each line with the boundary starts, with the line end before it, and ends; None ends the closing one."""
    line = b"\r\n--" + boundary
    start = -len(b"\r\n") if raw.startswith(line[2:]) else raw.find(line)
    while start != -1:
        after = start + len(line)
        if raw.startswith(b"--", after):
            yield start, None
            return
        if rest := _rest_of_line(raw, after):
            after = rest.end() - len(b"\r\n")
            yield start, rest.end()
        start = raw.find(line, after)


def _part(raw: bytes, start: int, end: int) -> Part:
    """The part whose head begins at *start* and whose value ends at *end*."""
    head_end = raw.find(b"\r\n\r\n", start, min(end, start + _LARGEST_HEAD_BYTES))
    if head_end == -1:
        raise MalformedBody("A part of the multipart body has no blank line after its headers")
    for line in raw[start:head_end].split(b"\r\n"):
        field, _, value = line.partition(b":")
        if field.strip().lower() == b"content-disposition":
            name = _parameter(value, "name")
            if name is not None:
                is_file = _parameter(value, "filename") is not None or b"filename*" in value.lower()
                return Part(name, is_file, head_end + len(b"\r\n\r\n"), end)
    raise MalformedBody("A part of the multipart body has no content-disposition with a name")


def _parameter(header: bytes, name: str) -> str | None:
    """The parameter *name* of a header's value, as ``b`` of ``a; name="b"``; None if there is none."""
    message = Message()
    message["content-type"] = header.decode("latin-1").strip()
    try:
        value = message.get_param(name)
    except ValueError:  # a part of a parameter (RFC 2231, 3) with a number of thousands of digits
        return None
    return value if isinstance(value, str) else None
