"""Bodies of HTML forms, read with limits."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from gateway.console.multipart import multipart_fields
from gateway.console.request_checks import RequestRefused

MAX_BYTES: Final = 256 * 2**10
MAX_FIELDS: Final = 500
FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"

Form = Mapping[str, str]
"""Fields of a form. If a field occurs several times, the last value counts."""


async def form_of(request: Request, *, max_upload_bytes: int = 0) -> Form:
    """Return the fields of the form that *request* sends.

    A form with a file has the text of the file as the value of a field. Such forms, of at most *max_upload_bytes* and
    `MAX_BYTES` for the other fields, are accepted only if *max_upload_bytes* is not 0.

    Raises:
        RequestRefused: if the body is not a form, or too large.
    """
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    is_upload = kind == MULTIPART and max_upload_bytes > 0
    if kind != FORM and not is_upload:
        raise RequestRefused(415, "The body of the request is not a form.")
    max_bytes = MAX_BYTES + (max_upload_bytes if is_upload else 0)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise RequestRefused(413, f"The form is larger than {max_bytes} bytes.")
    try:
        if is_upload:
            return multipart_fields(bytes(body), content_type, max_fields=MAX_FIELDS)
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise RequestRefused(400, "The form cannot be read.") from None
    return dict(pairs)
