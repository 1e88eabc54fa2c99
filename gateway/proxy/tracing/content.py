"""Prompt and answer of one request, kept only for receivers that are configured to get them."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

KEPT_FACTOR = 64
"""Bytes kept for each byte that may be sent: a stream event has some 200 bytes for a token of 4, and of a long body the
last messages are sent. The default is a MiB, which takes some milliseconds to read."""


class Content:
    """Keeps enough bytes of the answer for *max_bytes* of text, and all of the body or nothing of it."""

    __slots__ = ("_left", "_pieces", "max_bytes", "request")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.request = b""
        """The body as sent; empty if it is too long to be kept."""
        self._left = max_bytes * KEPT_FACTOR
        self._pieces: list[bytes] = []

    @property
    def answer(self) -> bytes:
        """The answer as sent to the caller, a JSON object or a stream, possibly cut short."""
        return b"".join(self._pieces)

    @property
    def size_bytes(self) -> int:
        """Memory of the kept bytes."""
        return len(self.request) + self.max_bytes * KEPT_FACTOR - self._left

    def asked(self, raw: bytes) -> None:
        """Keep *raw*, the body of the request, unless it is too long: a part of it cannot be decoded."""
        if len(raw) <= self.max_bytes * KEPT_FACTOR:
            self.request = raw

    def watching(self, send: Send, is_wanted: Callable[[], bool]) -> Send:
        """Return *send*, extended to keep the bodies that it sends while *is_wanted* returns True."""

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
