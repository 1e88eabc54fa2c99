"""Canonical paths of requests.

The base URL of a client may end with /v1, with a slash, or with neither, and each client appends its own path.
"""

from collections.abc import Container
from typing import Final
from urllib.parse import quote

PREFIX: Final = "/v1"
_BELOW: Final = ("/models/", "/responses/")
_SAFE: Final = "/!$&'()*+,;=:@"
"""Characters allowed in a path without escapes (RFC 3986, 3.3), besides letters, digits and ``-._~``."""


def canonical(path: str, served: Container[str]) -> str:
    """Return *path* without doubled and trailing slashes, and with one /v1 if that path is among *served*.

    An unknown path keeps its name.
    """
    plain = "/" + "/".join([part for part in path.split("/") if part]) if _is_untidy(path) else path
    while plain.startswith(PREFIX + PREFIX + "/"):
        plain = plain[len(PREFIX) :]
    if plain in served:
        return plain
    under = PREFIX + plain
    if under in served or plain == "/models" or plain.startswith(_BELOW):
        return under
    return plain


def raw(path: str) -> bytes:
    """Return *path* as written in a request line."""
    return quote(path, safe=_SAFE).encode("ascii")


def _is_untidy(path: str) -> bool:
    return "//" in path or (path.endswith("/") and path != "/")
