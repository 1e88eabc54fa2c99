"""Check texts in form bodies. All form fields except files and the model name are texts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.protocol.endpoints.multipart import boundary_of, parts_of
from gateway.protocol.errors import InvalidField
from gateway.protocol.splice import Places
from gateway.proxy.guardrails.filter import Text

MAX_TEXTS_BYTES: Final = 256 * 1024
"""Maximum total size in bytes of the form fields to check. Speech models read only about 1,000 bytes of a prompt."""
_UNSEEN: Final = frozenset({"model"})
_FILES: Final = frozenset({"file"})
_is_file = re.compile(rb";[ \t]*filename=", re.IGNORECASE).search
_has_length = re.compile(rb"\r\ncontent-length:", re.IGNORECASE).search


@dataclass(frozen=True, slots=True)
class Field:
    """Field of a form. The field's headers begin at index *head* of the body, and its value is ``raw[start:end]``."""

    name: str
    text: Text
    head: int
    start: int
    end: int


def form_texts(raw: bytes, content_type: bytes, places: Places | None, *, acts: bool) -> list[Field]:
    """Return those fields of the form *raw* that contain text.

    The positions of the form's parts are passed as *places* if they are known, and are searched otherwise. If *acts* is
    true, a field that cannot be checked is an error.

    Raises:
        InvalidField: if a field cannot be checked. The attribute *param* names the field.
        MalformedBody: if *raw* is not a form.
    """
    if places is None:
        places = tuple([(part.name, part.start, part.end) for part in parts_of(raw, content_type)])
    fields: list[Field] = []
    size = 0
    head = 0
    for name, start, end in places:
        if _is_file(raw, head, start):
            if acts and name not in _FILES:
                raise InvalidField(
                    f"The form field {name!r} is a file, which no guardrail can check. Send text.", param=name
                )
        elif name not in _UNSEEN and start < end:
            size += end - start
            text = _text(raw, name, start, end, is_too_long=size > MAX_TEXTS_BYTES, acts=acts)
            fields += [] if text is None else [Field(name, Text(text), head, start, end)]
        head = end
    return fields


def with_form_texts(raw: bytes, content_type: bytes, fields: Sequence[Field], said: Sequence[str]) -> bytes:
    """Return the form *raw* with the texts *said* in place of the texts of *fields*. All other bytes stay unchanged.

    Raises:
        InvalidField: if parsers could read the changed form in different ways. The attribute *param* names the field.
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
                f"A guardrail redacts the form field {field.name!r}, which has a content-length header. Omit it.",
                param=field.name,
            )
        if line in b"\n" + value:
            raise InvalidField(
                f"A guardrail redacts the form field {field.name!r}, which then contains the form's boundary. "
                "Use another boundary.",
                param=field.name,
            )
        pieces += (view[kept : field.start], value)
        kept = field.end
    return b"".join([*pieces, view[kept:]])


def _text(raw: bytes, name: str, start: int, end: int, *, is_too_long: bool, acts: bool) -> str | None:
    """Return the text of a form field, or None if the text cannot be checked and *acts* is false."""
    fault = f"too long (all fields together: {MAX_TEXTS_BYTES} bytes)" if is_too_long else "not UTF-8"
    try:
        if not is_too_long:
            return raw[start:end].decode()
    except UnicodeDecodeError:
        pass  # nor chained below: it carries the value
    if acts:
        raise InvalidField(f"The form field {name!r} is {fault}, so no guardrail can check it.", param=name)
    return None
