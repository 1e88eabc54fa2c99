"""Canonical form of the URL paths of requests.

The base URL that a client uses may end with /v1, with a slash, or with neither. Each client appends its own path to it.
"""

from collections.abc import Container
from typing import Final
from urllib.parse import quote

PREFIX: Final = "/v1"
_BELOW: Final = ("/models/", "/responses/", "/files/", "/batches/")
_LISTS: Final = ("/models", "/files", "/batches")
_SAFE: Final = "/!$&'()*+,;=:@"
"""Characters that need no escapes in a path (RFC 3986, 3.3), in addition to letters, digits and ``-._~``."""


def canonical(path: str, served: Container[str]) -> str:
    """Return *path* without doubled and trailing slashes. Add the prefix /v1, or remove a second one, if *served*
    contains the resulting path.

    An unknown path does not get a prefix.
    """
    plain = "/" + "/".join([part for part in path.split("/") if part]) if _is_untidy(path) else path
    while plain.startswith(PREFIX + PREFIX + "/"):
        plain = plain[len(PREFIX) :]
    if plain in served:
        return plain
    under = PREFIX + plain
    if under in served or plain in _LISTS or plain.startswith(_BELOW):
        return under
    return plain


def raw(path: str) -> bytes:
    """Return *path* in the percent-encoded form of a request line."""
    return quote(path, safe=_SAFE).encode("ascii")


def _is_untidy(path: str) -> bool:
    return "//" in path or (path.endswith("/") and path != "/")
