"""Parser for ``data:`` URLs, in which OpenAI clients send images and files."""

import base64
import binascii
from dataclasses import dataclass, field
from urllib.parse import unquote

from gateway.protocol.errors import InvalidField

_SCHEME = "data:"


@dataclass(frozen=True, slots=True)
class Attachment:
    """Image or file that the client sent in a request."""

    mime: str
    """Media type in lower case, without parameters, or an empty string if the client gave no media type."""
    data: bytes = field(repr=False)

    @property
    def base64(self) -> str:
        """Return the attachment's bytes encoded as base64."""
        return base64.b64encode(self.data).decode()


def read_attachment(url: str, where: str, *, allows_bare: bool = False) -> Attachment:
    """Decode *url*, a base64 ``data:`` URL. *where* is the name of the request field with the URL. O(url).

    *allows_bare* also accepts base64 without the ``data:`` prefix, as some clients send files.

    Raises:
        InvalidField: if *url* is another kind of URL, which the gateway does not fetch, or is not valid base64.
    """
    head, comma, text = url.partition(",")
    if head[: len(_SCHEME)].lower() != _SCHEME:
        if not allows_bare or "://" in url[:64]:
            raise InvalidField(
                f"'{where}' must be a data: URL, because the Bedrock fallback does not fetch URLs", param=where
            )
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
