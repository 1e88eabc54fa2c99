"""Rules of RFC 9112 for the head of a request that the HTTP parser itself does not enforce.

Each `check_*` function returns an error message for the client, or None if the rule holds.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

_VERSIONS: Final = ("1.1", "1.0")
_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(:[0-9]{0,5})?")
"""Pattern for the value of a `host` header (RFC 3986, section 3.2.2): an IP address or name with an optional port, and
no user name.
"""
_SCHEMES: Final = (b"http", b"https")


def check_host(value: bytes) -> str | None:
    """Check *value*, the value of a `host` header. Return an error message or None."""
    if _HOST.fullmatch(value):
        return None
    return "The 'host' header must be a host name or an IP address, with or without a port."


def check_head(version: str, *, hosts: int, is_coded: bool) -> str | None:
    """Check the request headers. There are *hosts* `host` headers, and `transfer-encoding` if *is_coded* is true."""
    if hosts > 1:
        return "The request has more than one 'host' header. Send exactly one."
    if hosts == 0 and version == "1.1":
        return "The 'host' header is missing. HTTP/1.1 requires it."
    if is_coded and version != "1.1":
        return "HTTP/1.0 does not support 'transfer-encoding'. Send 'content-length' instead."
    return None


def check_line(method: bytes, target: bytes, version: str, head: bytes) -> str | None:
    """Check the request line at the start of *head*. Return an error message or None."""
    if version not in _VERSIONS:
        return "The gateway supports only HTTP/1.1 and HTTP/1.0."
    if head.startswith(method + b" " + target + b" HTTP/" + version.encode("ascii") + b"\r\n"):
        return None
    return "The request line must be a method, a target and a version, separated by single spaces."


def authority_of(parts: Any) -> bytes | None:
    """Return the host and port of the parsed URL *parts*, or None if *parts* is not a valid HTTP URL."""
    if parts.schema is None or parts.schema.lower() not in _SCHEMES or not parts.host or parts.userinfo:
        return None
    host: bytes = b"[" + parts.host + b"]" if b":" in parts.host else parts.host
    return host if parts.port is None else host + b":%d" % parts.port


def announced_bytes(headers: Sequence[tuple[bytes, bytes]]) -> int:
    """Return the number in the `content-length` header, or 0 without this header. The HTTP parser has already checked
    the number.
    """
    for name, value in headers:
        if name == b"content-length":
            return int(value)
    return 0
