"""Forms with files, as browsers send them: `multipart/form-data` of RFC 7578."""

import re
from typing import Final

MAX_HEAD_BYTES: Final = 4096
"""Maximum size of the headers of one field."""
_BOUNDARY: Final = re.compile(r"""boundary="?([0-9A-Za-z'()+_,./:=?-]{1,70})"?\s*(?:;|$)""")
_NAME: Final = re.compile(
    r"""^content-disposition:\s*form-data;\s*name="([^"]*)"\s*(?:;|$)""", re.IGNORECASE | re.MULTILINE
)


def multipart_fields(body: bytes, content_type: str, *, max_fields: int) -> dict[str, str]:
    """Return the fields in *body*. Names of files are ignored. If a field occurs several times, the last value counts.

    Raises:
        ValueError: if the body is malformed, has more than *max_fields* fields, or is not in UTF-8.
    """
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise ValueError("the content type names no boundary")
    before, *parts = (b"\r\n" + body).split(b"\r\n--" + found[1].encode(), max_fields + 1)
    if before or not parts or not parts.pop().startswith(b"--"):
        raise ValueError("the form does not begin or does not end with its boundary")
    return dict(_field(part) for part in parts)


def _field(part: bytes) -> tuple[str, str]:
    """Return name and value of one field, which begins after its boundary."""
    end = part.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES)
    if not part.startswith(b"\r\n") or end < 0:
        raise ValueError("a field has no headers, or too long ones")
    name = _NAME.search(part[2:end].decode("utf-8").replace("\r\n", "\n"))
    if name is None:
        raise ValueError("a field has no name")
    return name[1], part[end + 4 :].decode("utf-8")
