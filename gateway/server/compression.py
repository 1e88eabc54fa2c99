"""Compression of large answers, for clients that accept it. Streams are never compressed.

It is off by default: it costs processor time, and the compressed size of an answer that mixes a secret with text of
another party reveals something of the secret (BREACH).
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
"""Larger bodies are compressed in a thread: on the event loop, 32 kB take about a millisecond."""
_GZIP_LEVEL: Final = 4
_ZSTD_LEVEL: Final = 3
_GZIP_WBITS: Final = 31
_TYPES: Final = (b"application/json", b"text/plain", b"application/problem+json")
_BODY_HEADERS: Final = frozenset({b"content-length", b"etag", b"content-md5", b"content-digest", b"digest"})


class Compression:
    """ASGI middleware that compresses answers of at least *min_bytes*."""

    def __init__(self, app: App, min_bytes: int) -> None:
        self._app = app
        self._min_bytes = min_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        coding = coding_for(fields(scope["headers"]).get(b"accept-encoding", b""))
        await self._app(scope, receive, _CompressingSend(send, coding, self._min_bytes))


class _CompressingSend:
    """A `Send` that delays the head of an answer that can be compressed until its body is complete."""

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
        """Return whether *start* is the head of a large text with a known length; a stream has none."""
        headers = fields(start.get("headers", ()))
        length = headers.get(b"content-length", b"0")
        is_text = headers.get(b"content-type", b"").startswith(_TYPES)
        return is_text and b"content-encoding" not in headers and int(length) >= self._min_bytes


def coding_for(accepted: bytes) -> bytes | None:
    """Return the coding for a client that sent *accepted* as ``accept-encoding``; None: do not compress."""
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
    """Return *body* in *coding*, gzip or zstd."""
    if len(body) < OFF_LOOP_BYTES:
        return _compress(body, coding)
    return await asyncio.to_thread(_compress, body, coding)


def _compress(body: bytes, coding: bytes) -> bytes:
    if coding == b"zstd":
        return zstd.compress(body, level=_ZSTD_LEVEL)
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WBITS)
    return packer.compress(body) + packer.flush()
