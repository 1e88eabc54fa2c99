"""Compress large answers for clients that accept compression. Streamed answers are never compressed.

Compression is off by default, because it costs CPU time. Compression can also leak secrets (the BREACH attack). If an
answer contains a secret and text of an attacker, its compressed size reveals something of the secret.
"""

import asyncio
import sys
import zlib
from collections.abc import Sequence
from typing import Final

from gateway.protocol.headers import fields
from gateway.server.asgi import App, Message, Receive, Send

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OFF_LOOP_BYTES: Final = 16_384
"""Size in bytes from which a body is compressed in a thread. On the event loop, compressing 32 kB takes about 1 ms."""
_GZIP_LEVEL: Final = 4
_ZSTD_LEVEL: Final = 3
_GZIP_WBITS: Final = 31
_TYPES: Final = (b"application/json", b"text/plain", b"application/problem+json")
_BODY_HEADERS: Final = frozenset({b"content-length", b"etag", b"content-md5", b"content-digest", b"digest"})


class Compression:
    """ASGI middleware that compresses answers of at least *min_bytes* bytes."""

    def __init__(self, app: App, min_bytes: int) -> None:
        self._app = app
        self._min_bytes = min_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve an HTTP request, and compress the answer if the client accepts compression."""
        coding = coding_for(fields(scope["headers"]).get(b"accept-encoding", b""))
        await self._app(scope, receive, _CompressingSend(send, coding, self._min_bytes))


class _CompressingSend:
    """ASGI send function that compresses an answer. It holds the response headers back until the body is complete."""

    def __init__(self, send: Send, coding: bytes | None, min_bytes: int) -> None:
        self._send = send
        self._coding = coding
        self._min_bytes = min_bytes
        self._held: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self._is_large(message):
            message["headers"] = [*message["headers"], (b"vary", b"Accept-Encoding")]
            if self._coding is not None:
                self._held = message
                return
        elif self._held is not None:
            start, self._held = self._held, None
            if not message.get("more_body", False) and self._coding is not None:
                body = await compressed(message.get("body", b""), self._coding)
                kept = [header for header in start["headers"] if header[0] not in _BODY_HEADERS]
                length = (b"content-length", b"%d" % len(body))
                start["headers"] = [*kept, (b"content-encoding", self._coding), length]
                message = {**message, "body": body}
            await self._send(start)
        await self._send(message)

    def _is_large(self, start: Message) -> bool:
        """Return whether the response that begins with *start* is a large text of known length. The length of a stream
        is not known.
        """
        headers = fields(start.get("headers", ()))
        length = headers.get(b"content-length", b"0")
        is_text = headers.get(b"content-type", b"").startswith(_TYPES)
        return is_text and b"content-encoding" not in headers and int(length) >= self._min_bytes


def coding_for(accepted: bytes) -> bytes | None:
    """Return the content coding for *accepted*, the value of the `accept-encoding` header, or None to send the body
    uncompressed.
    """
    wanted: dict[bytes, bool] = {}
    for each in accepted.lower().split(b","):
        name, _, weight = each.partition(b";")
        wanted[name.strip()] = weight.strip().replace(b" ", b"") not in _NEVER
    rest = wanted.get(b"*", False)
    for coding in (b"zstd", b"gzip"):
        if wanted.get(coding, rest and coding == b"gzip"):
            return coding
    return None


_NEVER: Final[Sequence[bytes]] = (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")


async def compressed(body: bytes, coding: bytes) -> bytes:
    """Return *body* compressed with *coding*, which is "gzip" or "zstd"."""
    if len(body) < OFF_LOOP_BYTES:
        return _compress(body, coding)
    return await asyncio.to_thread(_compress, body, coding)


def _compress(body: bytes, coding: bytes) -> bytes:
    if coding == b"zstd":
        return zstd.compress(body, level=_ZSTD_LEVEL)
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WBITS)
    return packer.compress(body) + packer.flush()
