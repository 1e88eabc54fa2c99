"""Which header fields travel on, and which belong to one connection only."""

from typing import Final

from gateway.backends.backend import Headers

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110 section 7.6.1, and RFC 2616 section 13.5.1 for the proxy fields. In lower case."""

_NOT_PASSED: Final = HOP_BY_HOP | {b"x-warmgate-dropped-params"}
"""Only the gateway's own backend for Bedrock says what it left out: the word of a worker does not count."""


def end_to_end(received: Headers) -> Headers:
    """The fields to pass on: names in lower case, hop-by-hop fields and those named in ``connection`` left out."""
    headers: Headers = []
    named = b""
    for raw_name, value in received:
        name = raw_name.lower()
        if name not in _NOT_PASSED:
            headers.append((name, value.strip()))
        elif name == b"connection" and value not in {b"keep-alive", b"close"}:
            named += b"," + value
    if not named:
        return headers
    dropped = {token.strip() for token in named.lower().split(b",")}
    return [(name, value) for name, value in headers if name not in dropped]


def ends_with_connection(received: Headers) -> bool:
    """Whether a body under these fields lasts until the connection closes (RFC 9112 section 6.3, rule 8)."""
    for name, value in received:
        lowered = name.lower()
        if lowered == b"content-length":
            return False
        if lowered == b"transfer-encoding" and value.strip().lower().endswith(b"chunked"):
            return False
    return True


def is_plainly_framed(received: Headers) -> bool:
    """Whether there is no transfer coding but ``chunked``, once: what the parser undoes, and no other."""
    codings = [value for name, value in received if name.lower() == b"transfer-encoding"]
    return not codings or (len(codings) == 1 and codings[0].strip().lower() == b"chunked")
