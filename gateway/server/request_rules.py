"""What RFC 9112 asks of the head of a request, and the parser lets pass.

Each rule gives the sentence for the caller, None where nothing is wrong.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

_VERSIONS: Final = ("1.1", "1.0")
_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(:[0-9]{0,5})?")
"""An address or a name, and a port (RFC 3986, 3.2.2); no user, no space, no second colon."""
_SCHEMES: Final = (b"http", b"https")


def check_host(value: bytes) -> str | None:
    """Of the value of one header ``host``."""
    return None if _HOST.fullmatch(value) else "The header host is not a host name or address, with or without a port."


def check_head(version: str, *, hosts: int, is_coded: bool) -> str | None:
    """Of a head with so many headers ``host``; *is_coded*: there is a transfer-encoding."""
    if hosts > 1:
        return "There must be one header host, not several."
    if hosts == 0 and version == "1.1":
        return "The header host is missing: HTTP/1.1 needs it."
    if is_coded and version != "1.1":
        return "HTTP/1.0 has no transfer-encoding: send a content-length."
    return None


def check_line(method: bytes, target: bytes, version: str, head: bytes) -> str | None:
    """Of the request line with which *head* begins."""
    if version not in _VERSIONS:
        return "This is not a request of HTTP/1.1 or HTTP/1.0."
    if head.startswith(method + b" " + target + b" HTTP/" + version.encode("ascii") + b"\r\n"):
        return None
    return "The request line must be a method, a target and HTTP/1.1, with exactly one space between them."


def authority_of(parts: Any) -> bytes | None:
    """Host and port of the absolute target that *parts* were parsed from; None where it is not one of HTTP."""
    if parts.schema is None or parts.schema.lower() not in _SCHEMES or not parts.host or parts.userinfo:
        return None
    host: bytes = b"[" + parts.host + b"]" if b":" in parts.host else parts.host
    return host if parts.port is None else host + b":%d" % parts.port


def announced_bytes(headers: Sequence[tuple[bytes, bytes]]) -> int:
    """What content-length says, which the parser has checked; 0 where there is none."""
    for name, value in headers:
        if name == b"content-length":
            return int(value)
    return 0
