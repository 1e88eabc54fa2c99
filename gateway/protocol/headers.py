"""HTTP header fields that the gateway forwards between callers and workers."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

Headers = list[tuple[bytes, bytes]]
"""Header fields of one message, in order. ASGI and httptools return the names in lower case."""
HeaderLookup = Callable[[bytes], str | None]
"""Function that returns the value of a header field by its lower-case name, or None if the field is absent
or empty.
"""

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
"""Header fields that apply to a single connection, in lower case (RFC 9110, 7.6.1; RFC 2616, 13.5.1 for the proxy
fields).
"""

_NOT_PASSED: Final = HOP_BY_HOP | {b"x-warmgate-dropped-params"}
"""Header fields that workers must not set. Only the gateway's Bedrock backend can report dropped parameters."""

CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"cookie"})
"""Header fields with the caller's credentials for the gateway. Workers must not see them."""

REPLACED = frozenset(
    {b"host", b"content-length", b"x-request-id", b"expect", b"accept-encoding", b"content-type", b"content-encoding"}
)
"""Headers of requests to workers that the gateway itself sets. It requests no compression, because it reads the usage
in answers.
"""

STEERING: Final[tuple[bytes, ...]] = (
    b"x-data-parallel-",
    b"x-dynamo-",
    b"x-override-",
    b"x-smg-",
    b"x-sglext-",
    b"x-vllm-",
    b"x-prefiller-",
    b"x-encoder-",
    b"x-gateway-destination-",
    b"x-worker-instance-id",
    b"x-dp-rank",
    b"x-tenant-id",
    b"target-pod",
    b"routing-strategy",
)
"""Prefixes of headers that make engines or routers select a worker, a priority, or the source of a prompt. They are
used by vLLM, SGLang, Dynamo, llm-d and AIBrix. Callers cannot send them, because the gateway decides.
"""

SESSION_HEADERS: Final = (
    b"x-claude-code-session-id",  # Claude Code
    b"x-session-affinity",  # OpenCode, Crush, Pi
    b"session-id",  # Codex
    b"session_id",  # earlier versions of Codex, Pi
    b"x-opencode-session",  # agents that are configured for OpenCode's own API
    b"x-session-id",  # vLLM and many clients
    b"x-dynamo-session-id",  # clients of Dynamo
    b"x-litellm-session-id",  # clients of LiteLLM's proxy
)
"""Request headers that name a session, in order of precedence. Clients send them without configuration."""

SESSION_TOKEN_HEADER: Final = b"x-session-token"
"""Request header with the session token of llm-d's router. Other systems send a credential in it, so only its digest is
used.
"""

_NOT_UPSTREAM: Final = HOP_BY_HOP | CREDENTIALS | REPLACED | {*SESSION_HEADERS, SESSION_TOKEN_HEADER}
_FROM_BACKENDS: Final = frozenset(
    {
        b"cache-control",
        b"content-disposition",
        b"content-encoding",
        b"content-language",
        b"content-type",
        b"etag",
        b"last-modified",
        b"openai-model",
        b"openai-processing-ms",
        b"openai-version",
        b"retry-after",
        b"server-timing",
        b"x-amzn-requestid",
        b"x-warmgate-dropped-params",
    }
)
"""Headers of a backend's answer that are passed to the caller. All others are dropped. A cookie, ``clear-site-data`` or
``location`` would apply to the gateway's origin. ``server`` and ``via`` would reveal the backend. The gateway itself
sets ``x-warmgate-*`` and ``x-ratelimit-*``. Its Bedrock backend sets ``x-warmgate-dropped-params``, which `end_to_end`
drops from the answers of workers.
"""
UNBUFFERED: Final[Headers] = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
"""Headers that streams need. Without these headers, nginx buffers 4 to 8 kB of an answer before it sends anything."""
_BUFFERING: Final = frozenset(name for name, _ in UNBUFFERED)
_BODY_HEADERS = frozenset(
    {
        b"content-type",
        b"content-language",
        b"content-md5",
        b"content-digest",
        b"repr-digest",
        b"digest",
        b"etag",
        b"last-modified",
    }
)
_PLAIN: Final = re.compile(rb"[!-~]{1,128}")


def end_to_end(received: Headers) -> Headers:
    """Return the header fields to forward, with lower-case names. Hop-by-hop fields and fields named in ``connection``
    are omitted.
    """
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
    """Return whether the message body lasts until the connection closes (RFC 9112, 6.3, rule 8)."""
    for name, value in received:
        lowered = name.lower()
        if lowered == b"content-length":
            return False
        if lowered == b"transfer-encoding" and value.strip().lower().endswith(b"chunked"):
            return False
    return True


def is_plainly_framed(received: Headers) -> bool:
    """Return whether the message body has no transfer coding except a single ``chunked``, which the parser decodes."""
    codings = [value for name, value in received if name.lower() == b"transfer-encoding"]
    return not codings or (len(codings) == 1 and codings[0].strip().lower() == b"chunked")


def upstream(headers: Headers, request_id: bytes, content_type: bytes) -> Headers:
    """Return the headers of a request to a worker, computed from the caller's *headers*. Names are in lower case, as in
    ASGI.
    """
    kept = [header for header in headers if header[0] not in _NOT_UPSTREAM and not header[0].startswith(STEERING)]
    if any(header[0] == b"connection" for header in headers):
        passing = {name for name, _ in end_to_end(headers)}  # without those that `connection` names
        kept = [header for header in kept if header[0] in passing]
    return [(b"content-type", content_type), (b"x-request-id", request_id), *kept]


def downstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return those *headers* of a backend's answer that are passed to the caller; see `_FROM_BACKENDS`. Names are in
    lower case.
    """
    return [header for header in headers if header[0] in _FROM_BACKENDS]


def unbuffered(headers: Headers) -> Headers:
    """Return the *headers* of a stream with additional headers that prevent proxies from buffering the stream."""
    return [*[header for header in headers if header[0] not in _BUFFERING], *UNBUFFERED]


def of_another_body(headers: Headers, content_type: bytes) -> Headers:
    """Return *headers* for a new body of type *content_type* that replaces the original body."""
    kept = [header for header in headers if header[0] not in _BODY_HEADERS]
    return [*kept, (b"content-type", content_type)]


def is_json(headers: Headers) -> bool:
    """Return whether *headers* say that the body is JSON and not compressed."""
    media = b""
    for name, value in headers:
        if name == b"content-type":
            media = value
    return media.split(b";", 1)[0].strip().lower() == b"application/json" and not is_compressed(headers)


def is_compressed(headers: Headers) -> bool:
    """Return whether *headers* say that the body is compressed. The gateway never requests compression."""
    return any(name == b"content-encoding" and value.lower() != b"identity" for name, value in headers)


def fields(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the first value of each header by name, as a dict, because compiled code reads a dict fast."""
    return dict(reversed(headers))


def request_id_of(fields: dict[bytes, bytes]) -> bytes | None:
    """Return the caller's request id, or None if the id is not valid in a header and a log line."""
    value = fields.get(b"x-request-id")
    return value if value is not None and _PLAIN.fullmatch(value) else None
