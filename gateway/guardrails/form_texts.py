"""Where in a form there are texts: in every field that is not a file, but for the name of the model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.endpoints.multipart import boundary_of, parts_of
from gateway.errors import InvalidField
from gateway.guardrails.filter import Text
from gateway.splice import Places

MAX_TEXTS_BYTES: Final = 256 * 1024
"""Of all fields together; what a model of speech reads of a prompt has about a thousand."""
_UNSEEN: Final = frozenset({"model"})
_FILES: Final = frozenset({"file"})
_is_file = re.compile(rb";[ \t]*filename=", re.IGNORECASE).search
_has_length = re.compile(rb"\r\ncontent-length:", re.IGNORECASE).search


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form: its value is ``raw[start:end]``, and its headers begin at *head*."""

    name: str
    text: Text
    head: int
    start: int
    end: int


def form_texts(raw: bytes, content_type: bytes, places: Places | None, *, acts: bool) -> list[Field]:
    """The fields of the form *raw* that have a text. *places* are those of its parts, of a form that was read before;
    where there are none they are looked for. *acts*: what cannot be looked at is refused.

    Raises:
        InvalidField: it is; *param* names the field.
        MalformedBody: *raw* is not a form.
    """
    if places is None:
        places = tuple([(part.name, part.start, part.end) for part in parts_of(raw, content_type)])
    fields: list[Field] = []
    size = 0
    head = 0
    for name, start, end in places:
        if _is_file(raw, head, start):
            if acts and name not in _FILES:
                raise InvalidField(f"{name!r} is a file, which no guardrail can look at; send a text", param=name)
        elif name not in _UNSEEN and start < end:
            size += end - start
            text = _text(raw, name, start, end, is_too_long=size > MAX_TEXTS_BYTES, acts=acts)
            fields += [] if text is None else [Field(name, Text(text), head, start, end)]
        head = end
    return fields


def with_form_texts(raw: bytes, content_type: bytes, fields: Sequence[Field], said: Sequence[str]) -> bytes:
    """*raw* with *said* in place of the texts of *fields*; every other byte stays.

    Raises:
        InvalidField: parsers could read the form in different ways then; *param* names the field.
    """
    line = b"\n--" + boundary_of(content_type)
    view = memoryview(raw)
    pieces: list[bytes | memoryview] = []
    kept = 0
    for field, text in zip(fields, said, strict=True):
        if text == field.text.said:
            continue
        value = text.encode()
        if _has_length(raw, field.head, field.start):
            raise InvalidField(
                f"A guardrail redacts {field.name!r}, which has a content-length of its own; leave that header out",
                param=field.name,
            )
        if line in b"\n" + value:
            raise InvalidField(
                f"A guardrail redacts {field.name!r}, which would then hold the form's boundary; use another boundary",
                param=field.name,
            )
        pieces += (view[kept : field.start], value)
        kept = field.end
    return b"".join([*pieces, view[kept:]])


def _text(raw: bytes, name: str, start: int, end: int, *, is_too_long: bool, acts: bool) -> str | None:
    """None: nobody can look at it, and nobody has to."""
    fault = f"longer, with the other fields, than {MAX_TEXTS_BYTES} bytes" if is_too_long else "not UTF-8"
    try:
        if not is_too_long:
            return raw[start:end].decode()
    except UnicodeDecodeError:
        pass  # nor chained below: it carries the value
    if acts:
        raise InvalidField(f"{name!r} is {fault}, so no guardrail can look at it", param=name)
    return None
