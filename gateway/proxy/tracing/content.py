"""Keep the prompt and answer of a request, for those trace receivers that are configured to get them."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

KEPT_FACTOR = 64
"""Number of bytes to keep for each byte of text that can be exported. A stream event has about 200 bytes for 4 bytes of
text, and only the last messages of a long request are exported. The default limit is 1 MiB, which takes some
milliseconds to read.
"""

BEGINNING_BYTES = 256
"""Bytes of the prompt to keep separately, from which the cache map takes the first words of a prefix."""


class Content:
    """Content of a request and its answer, enough for *max_bytes* bytes of text. The request body is kept completely or
    not at all.
    """

    __slots__ = ("_left", "_pieces", "beginning", "max_bytes", "request")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.request = b""
        """Request body as the caller sent it, or an empty value if the body is too long."""
        self.beginning = b""
        """First `BEGINNING_BYTES` bytes of the prompt as it is hashed, or an empty value if the body is too long."""
        self._left = max_bytes * KEPT_FACTOR
        self._pieces: list[bytes] = []

    @property
    def answer(self) -> bytes:
        """Answer as it was sent to the caller. It is a JSON object or a stream, and it is possibly cut short."""
        return b"".join(self._pieces)

    @property
    def size_bytes(self) -> int:
        """Memory in bytes that the request and answer take."""
        return len(self.request) + self.max_bytes * KEPT_FACTOR - self._left

    def asked(self, raw: bytes, prompt: bytes = b"") -> None:
        """Keep the request body *raw* and the beginning of its rendered *prompt*. Nothing is kept of a body that is too
        long, because it could not be decoded in part.
        """
        if len(raw) <= self.max_bytes * KEPT_FACTOR:
            self.request = raw
            self.beginning = prompt[:BEGINNING_BYTES]

    def watching(self, send: Send, is_wanted: Callable[[], bool]) -> Send:
        """Return an ASGI send function that calls *send*, and keeps the body bytes while *is_wanted* returns true."""

        async def watched(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body" and is_wanted():
                self._keep(message.get("body", b""))
            await send(message)

        return watched

    def _keep(self, piece: bytes) -> None:
        if piece and self._left > 0:
            kept = piece[: self._left]
            self._left -= len(kept)
            self._pieces.append(kept)
