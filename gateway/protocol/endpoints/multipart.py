"""Parts of a ``multipart/form-data`` body (RFC 7578), as positions in the bytes of the body.

The worker parses the same bytes with another parser. The gateway must authorize the values that the worker reads. It
therefore refuses every form that two parsers could read differently, and accepts only the spelling of HTTP clients,
which all parsers read alike. A part may be a file of any size, so nothing is copied.
"""

import re
from dataclasses import dataclass

from gateway.protocol.errors import MalformedBody

_MAX_PARTS = 1000
"""Maximum number of parts in a form, equal to the default of Starlette's form parser."""
_MAX_HEAD_BYTES = 16 * 1024

_PARAMETER = re.compile(rb'[ \t]*;[ \t]*([!#-\'*-.0-9A-Z^-z|~]+)=(?:"([^"\\\x00-\x1f\x7f]*)"|([!#-\'*-.0-9A-Z^-z|~]+))')
_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]").fullmatch  # RFC 2046, 5.1.1
_NAME = re.compile(rb"[0-9A-Za-z_.\[\]-]{1,128}").fullmatch
_FIELD = re.compile(rb"([0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)").fullmatch
_PLAIN_TEXT = re.compile(rb'text/plain(?:[ \t]*;[ \t]*charset="?(?:utf-8|us-ascii)"?)?[ \t]*', re.IGNORECASE).fullmatch
_LENGTH = re.compile(rb"[0-9]{1,15}[ \t]*").fullmatch


@dataclass(frozen=True, slots=True)
class FormPart:
    """Field or file of a form. The value is ``raw[start:end]``."""

    name: str
    is_file: bool
    start: int
    end: int


def parts_of(raw: bytes, content_type: bytes) -> list[FormPart]:
    """Return the parts of *raw* in order. Takes O(bytes), in C, to search for the boundary.

    Raises:
        MalformedBody: if *content_type* names no boundary, if *raw* is not a multipart body, or if another parser could
            read it differently.
    """
    line = b"--" + boundary_of(content_type)
    if not raw.startswith(line):
        raise MalformedBody("The multipart body must begin with the boundary given in the content-type")
    parts: list[FormPart] = []
    names: set[str] = set()
    at = len(line)
    while not raw.startswith(b"--", at):
        if not raw.startswith(b"\r\n", at):
            raise MalformedBody("The multipart body has a boundary with other text on its line")
        if len(parts) == _MAX_PARTS:
            raise MalformedBody(f"The multipart body has more than {_MAX_PARTS} parts")
        end = raw.find(b"\n" + line, at + 1)
        if end == -1:
            raise MalformedBody("The multipart body ends before its closing boundary")
        if raw[end - 1 : end] != b"\r":
            raise MalformedBody("The multipart body has a boundary after LF without CR")
        part = _part(raw, at + 2, end - 1)
        if part.name in names and not part.name.endswith("[]"):
            raise MalformedBody(f"The multipart body has the field '{part.name}' more than once")
        names.add(part.name)
        parts.append(part)
        at = end + 1 + len(line)
    if raw[at + 2 :] not in {b"", b"\r\n"}:
        raise MalformedBody("The multipart body continues after its closing boundary")
    return parts


def replaced(raw: bytes, parts: list[FormPart], value: bytes) -> bytes:
    """Return a copy of *raw* in which each of *parts* has the value *value*."""
    view = memoryview(raw)
    pieces: list[bytes | memoryview] = []
    kept = 0
    for part in parts:
        pieces += (view[kept : part.start], value)
        kept = part.end
    return b"".join([*pieces, view[kept:]])


def boundary_of(content_type: bytes) -> bytes:
    """Return the boundary in *content_type*. It must be the only parameter, because other parameters change how parsers
    read fields.
    """
    media, semicolon, rest = content_type.strip(b" \t").partition(b";")
    parameters = _parameters(semicolon + rest)
    if parameters is None or media.strip(b" \t").lower() != b"multipart/form-data":
        raise MalformedBody("The content-type of the multipart body is malformed")
    boundary = parameters.pop(b"boundary", b"")
    if not _BOUNDARY(boundary):
        raise MalformedBody("The content-type must have a boundary of 1 to 70 characters")
    if parameters:
        raise MalformedBody("The content-type of a multipart body must have no parameters except boundary")
    return boundary


def _part(raw: bytes, start: int, end: int) -> FormPart:
    """Return the form part whose headers begin at *start* and whose value ends at *end*."""
    head_end = raw.find(b"\r\n\r\n", start, min(end, start + _MAX_HEAD_BYTES))
    if head_end == -1:
        raise MalformedBody("A part of the multipart body has no blank line after its headers")
    fields = _fields(raw[start:head_end])
    disposition = fields.pop(b"content-disposition", None)
    if disposition is None:
        raise MalformedBody("A part of the multipart body has no content-disposition with a name")
    name, is_file = _name_in(disposition)
    media = fields.pop(b"content-type", None)
    if not is_file and media is not None and not _PLAIN_TEXT(media):
        raise MalformedBody(f"The field '{name}' in the multipart body must be text/plain in UTF-8")
    length = fields.pop(b"content-length", None)
    value = head_end + len(b"\r\n\r\n")
    if length is not None and (not _LENGTH(length) or int(length) != end - value):
        raise MalformedBody(f"The content-length of the field '{name}' in the multipart body is wrong")
    if fields:
        raise MalformedBody(
            "A part of the multipart body must have only the headers content-disposition and content-type"
        )
    return FormPart(name, is_file, value, end)


def part_head(head: bytes) -> tuple[str, str | None]:
    """Return the field name in the headers *head* of a form part, and its file name, or None if it is not a file.

    Raises:
        MalformedBody: if the headers are malformed or ambiguous.
    """
    disposition = _fields(head).get(b"content-disposition")
    if disposition is None:
        raise MalformedBody("A part of the multipart body has no content-disposition with a name")
    name, filename = _names_in(disposition)
    return name, None if filename is None else filename.decode("utf-8", "replace")


def _fields(head: bytes) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n"):
        field = _FIELD(line)
        if field is None:
            raise MalformedBody("A part of the multipart body has a malformed or folded header")
        name = field[1].lower()
        if name in fields:
            raise MalformedBody(f"A part of the multipart body has the header {name.decode()} more than once")
        fields[name] = field[2]
    return fields


def _name_in(disposition: bytes) -> tuple[str, bool]:
    """Return the name of a form part, and whether the part is a file."""
    name, filename = _names_in(disposition)
    return name, filename is not None


def _names_in(disposition: bytes) -> tuple[str, bytes | None]:
    """Return the name of a form part, and its file name, or None if the part is not a file."""
    kind, semicolon, rest = disposition.partition(b";")
    parameters = _parameters(semicolon + rest)
    if parameters is None or kind.strip(b" \t").lower() != b"form-data":
        raise MalformedBody("A part of the multipart body has a malformed or ambiguous content-disposition")
    name = parameters.pop(b"name", None)
    if name is None:
        raise MalformedBody("A part of the multipart body has no content-disposition with a name")
    if not _NAME(name) or name == b"_charset_":
        raise MalformedBody("A field name in the multipart body is not allowed: use letters, digits and _.-[]")
    filename = parameters.pop(b"filename", None)
    if parameters:
        raise MalformedBody(
            "A content-disposition of the multipart body must have only the parameters name and filename"
        )
    return name.decode(), filename


def _parameters(text: bytes) -> dict[bytes, bytes] | None:
    """Return the parameters of a header by lower-case name, or None if they are malformed or repeated."""
    parameters: dict[bytes, bytes] = {}
    text = text.rstrip(b" \t")
    at = 0
    while at < len(text):
        found = _PARAMETER.match(text, at)
        if found is None or found[1].lower() in parameters:
            return None
        parameters[found[1].lower()] = found[3] if found[2] is None else found[2]
        at = found.end()
    return parameters
