"""Which headers pass, in either direction."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from gateway.backends.backend import Headers
from gateway.upstream.headers import HOP_BY_HOP, end_to_end

CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"cookie"})
"""What a caller proves itself to the gateway with is nothing for a worker."""

REPLACED = frozenset(
    {b"host", b"content-length", b"x-request-id", b"expect", b"accept-encoding", b"content-type", b"content-encoding"}
)
"""Said anew on the way up. Compression is not asked for: usage is read in passing. Bodies go on decompressed."""

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
"""How the names of headers begin that tell an engine, or a router before it, who is to answer, how early, or from where
to fetch a prompt: vLLM's, SGLang's, Dynamo's, llm-d's and AIBrix's. A caller's own never pass: the gateway chooses."""

_STOPPED: Final = HOP_BY_HOP | CREDENTIALS | REPLACED
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
"""Headers of a backend's answer that reach the caller; no others do. A cookie, ``clear-site-data`` or ``location``
would act on the gateway's own origin, ``server`` and ``via`` name what stands behind it, and ``x-warmgate-*`` and
``x-ratelimit-*`` are the gateway's to say. Its own backend for Bedrock says ``x-warmgate-dropped-params``; in the
answers of workers that header is dropped where they are read (`gateway.upstream.headers.end_to_end`)."""
UNBUFFERED: Final[Headers] = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
"""nginx collects an answer until it has 4 to 8 kB of it, unless the answer says that it must not."""
_BUFFERING: Final = frozenset(name for name, _ in UNBUFFERED)
_OF_THE_BODY = frozenset(
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


def upstream(headers: Headers, request_id: bytes, content_type: bytes) -> Headers:
    """The caller's headers as a worker gets them; their names are in lower case, as ASGI has them."""
    kept = [header for header in headers if header[0] not in _STOPPED and not header[0].startswith(STEERING)]
    if any(header[0] == b"connection" for header in headers):
        passing = {name for name, _ in end_to_end(headers)}  # without those that `connection` names
        kept = [header for header in kept if header[0] in passing]
    return [(b"content-type", content_type), (b"x-request-id", request_id), *kept]


def downstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return those of a backend's headers that the caller gets, see `_FROM_BACKENDS`; *headers* are in lower case."""
    return [header for header in headers if header[0] in _FROM_BACKENDS]


def unbuffered(headers: Headers) -> Headers:
    """*headers* of a stream: with what keeps proxies from collecting its events."""
    return [*[header for header in headers if header[0] not in _BUFFERING], *UNBUFFERED]


def of_another_body(headers: Headers, content_type: bytes) -> Headers:
    """*headers* for a body of *content_type* that stands in place of the one that they came with."""
    kept = [header for header in headers if header[0] not in _OF_THE_BODY]
    return [*kept, (b"content-type", content_type)]


def is_json(headers: Headers) -> bool:
    """The body is JSON that can be read here."""
    said = b""
    for name, value in headers:
        if name == b"content-type":
            said = value
    return said.split(b";", 1)[0].strip().lower() == b"application/json" and not is_compressed(headers)


def is_compressed(headers: Headers) -> bool:
    """The body is not to be read here: it was compressed, though nobody asked for that."""
    return any(name == b"content-encoding" and value.lower() != b"identity" for name, value in headers)


def fields(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The first value of each header, by its name in lower case. A dict: compiled, it is faster than any Mapping."""
    return dict(reversed(headers))


def request_id_of(fields: dict[bytes, bytes]) -> bytes | None:
    """The caller's own request id, if it is one that can stand in a header and a log line."""
    value = fields.get(b"x-request-id")
    return value if value is not None and _PLAIN.fullmatch(value) else None
