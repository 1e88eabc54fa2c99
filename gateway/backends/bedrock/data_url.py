"""Bytes inside a URL, as OpenAI's clients send images and files."""

import base64
import binascii
from dataclasses import dataclass, field
from urllib.parse import unquote

from gateway.protocol.errors import InvalidField

_SCHEME = "data:"


@dataclass(frozen=True, slots=True)
class Attachment:
    """Attachment of the caller."""

    mime: str
    """Media type in lower case, without parameters; empty if it is not given."""
    data: bytes = field(repr=False)

    @property
    def base64(self) -> str:
        """Return the bytes as JSON carries them to Bedrock: encoded once."""
        return base64.b64encode(self.data).decode()


def read_attachment(url: str, where: str, *, allows_bare: bool = False) -> Attachment:
    """The bytes in *url*, a ``data:`` URL in base64; *where* is its place in the body. O(url).

    *allows_bare* takes base64 without anything before it, as some clients send files.

    Raises:
        InvalidField: it is another kind of URL (Bedrock fetches nothing, and neither does the gateway), or no base64.
    """
    head, comma, text = url.partition(",")
    if head[: len(_SCHEME)].lower() != _SCHEME:
        if not allows_bare or "://" in url[:64]:
            raise InvalidField(f"'{where}' must be a data: URL: the Bedrock fallback does not fetch URLs", param=where)
        return Attachment(mime="", data=_decode(url, where))
    mime, *parameters = (part.strip().lower() for part in head[len(_SCHEME) :].split(";"))
    if not comma or "base64" not in parameters:
        raise InvalidField(f"'{where}' must be a base64 data: URL", param=where)
    return Attachment(mime=mime, data=_decode(text, where))


def _decode(text: str, where: str) -> bytes:
    plain = unquote(text) if "%" in text else text
    try:
        data = base64.b64decode("".join(plain.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidField(f"'{where}' is not valid base64", param=where) from error
    if not data:
        raise InvalidField(f"'{where}' is empty", param=where)
    return data
