"""Prompt and answer of one request, kept for whoever is configured to be sent them; else nothing of this is made."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

KEPT_FACTOR = 64
"""Bytes that are kept for each that may be told: an event of a stream has some 200 for a token of 4, and of a long body
the last messages are told. By default a MiB, which takes some milliseconds to be read."""


class Content:
    """Of an answer as many bytes are kept as have *most_bytes* of text among them; of a body all, or none."""

    __slots__ = ("_left", "_pieces", "most_bytes", "request")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.request = b""
        """The body as it came; empty as well where it is too long to be kept."""
        self._left = most_bytes * KEPT_FACTOR
        self._pieces: list[bytes] = []

    @property
    def answer(self) -> bytes:
        """What went to the caller, as it went: an object of JSON, or a stream; perhaps cut short."""
        return b"".join(self._pieces)

    @property
    def size_bytes(self) -> int:
        """Memory that it holds."""
        return len(self.request) + self.most_bytes * KEPT_FACTOR - self._left

    def asked(self, raw: bytes) -> None:
        """Keep *raw*, the body of the request, if it is not too long: half of it cannot be read."""
        if len(raw) <= self.most_bytes * KEPT_FACTOR:
            self.request = raw

    def watching(self, send: Send, is_wanted: Callable[[], bool]) -> Send:
        """*send*, with the bodies of what is sent kept here as long as that *is_wanted*."""

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
