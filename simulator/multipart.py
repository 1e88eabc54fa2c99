"""Parser for ``multipart/form-data`` that uses the standard library's MIME parser."""

from collections.abc import Mapping
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser

from simulator.errors import ApiError


def read_form(body: bytes, content_type: str) -> Mapping[str, bytes]:
    """Return the form fields by name. Files are returned as bytes. If a name is repeated, its last value is used.

    Raises:
        ApiError: 400 if the body is not a form or has no parts.
    """
    if content_type.partition(";")[0].strip().lower() != "multipart/form-data":
        raise ApiError(400, "Unsupported Media Type: Only 'multipart/form-data' is allowed")
    head = b"content-type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n"
    # HTTP's policy leaves line ends as they are.
    form = BytesParser(EmailMessage, policy=policy.HTTP).parsebytes(head + body)
    fields: dict[str, bytes] = {}
    for part in form.iter_parts() if form.is_multipart() else ():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content
    if not fields:
        raise ApiError(400, "the body is not a form: it has no parts")
    return fields
