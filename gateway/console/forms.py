"""Bodies of HTML forms, read with limits."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from gateway.console.request_checks import RequestRefused

MAX_BYTES: Final = 256 * 2**10
MAX_FIELDS: Final = 500
FORM: Final = "application/x-www-form-urlencoded"

Form = Mapping[str, str]
"""Fields of a form. If a field occurs several times, the last value counts."""


async def form_of(request: Request) -> Form:
    """Return the fields of the form that *request* sends.

    Raises:
        RequestRefused: if the body is not a form, or too large.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise RequestRefused(415, "The body of the request is not a form.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BYTES:
            raise RequestRefused(413, f"The form is larger than {MAX_BYTES} bytes.")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise RequestRefused(400, "The form cannot be read.") from None
    return dict(pairs)
