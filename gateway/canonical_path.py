"""Paths as people type them, and as they are served.

A base URL ends with /v1, with a slash, or with neither, and each client puts its own path behind it.
"""

from collections.abc import Container
from typing import Final
from urllib.parse import quote

PREFIX: Final = "/v1"
_BELOW: Final = ("/models/", "/responses/")
_SAFE: Final = "/!$&'()*+,;=:@"
"""Characters that a path may have as they are (RFC 3986, 3.3), beside letters, digits and ``-._~``."""


def canonical(path: str, served: Container[str]) -> str:
    """*path* as it is served: without doubled and trailing slashes, with /v1 once where it is one of *served* there.

    A path that is not known keeps its name.
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
    """*path* as it stands in a request line."""
    return quote(path, safe=_SAFE).encode("ascii")


def _is_untidy(path: str) -> bool:
    return "//" in path or (path.endswith("/") and path != "/")
