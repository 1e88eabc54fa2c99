"""Client for one chat over one connection, with minimal work per piece of the answer.

Because the client costs little, workers, router and clients can share two cores. The client stores received pieces and
parses them when the answer is complete.
"""

import asyncio
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

FIRST_EVENT = b"data: {"  # a comment, which keeps a connection alive, begins otherwise
LAST_EVENT = b"data: [DONE]"
ERROR = b'"error":'
READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of one request. Times are in real seconds, counted from the planned sending time."""

    ttft_s: float
    e2e_s: float
    late_s: float
    """Delay of sending the request, which is the client's own lag."""
    failure: str | None
    """Status or error of the stream, or None if the answer is complete."""


class Door:
    """Address of a router. Each request uses a new connection, so that no answer waits for another."""

    def __init__(self, url: str, *, timeout_s: float, key: str | None = None) -> None:
        """Create the address. *key* is sent as a bearer token. None sends no token."""
        parts = urlsplit(url)
        if parts.hostname is None or parts.port is None:
            raise ValueError(f"{url} has no host or no port")
        self._host, self._port = parts.hostname, parts.port
        self._timeout_s = timeout_s
        self._more_headers = () if key is None else (f"authorization: Bearer {key}",)

    async def ask(self, body: bytes, *, due: float) -> Answer:
        """Send *body*, which was due at the given monotonic time, and read the answer to its end."""
        sent = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                first, received = await self._exchange(body)
        except TimeoutError:
            first, received = None, b"timeout"
        except OSError as error:
            first, received = None, type(error).__name__.encode()
        ended = time.monotonic()
        failure = _failure(received, first)
        return Answer((first or ended) - due, ended - due, sent - due, failure)

    async def _exchange(self, body: bytes) -> tuple[float | None, bytes]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(self._head(len(body)))
            writer.write(body)
            received = bytearray()
            first = None
            while piece := await reader.read(READ_BYTES):
                received += piece
                if first is None and FIRST_EVENT in received:
                    first = time.monotonic()
            return first, bytes(received)
        finally:
            writer.close()

    def _head(self, length: int) -> bytes:
        lines = (
            "POST /v1/chat/completions HTTP/1.1",
            f"host: {self._host}:{self._port}",
            "content-type: application/json",
            f"content-length: {length}",
            "connection: close",
            *self._more_headers,
        )
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _failure(received: bytes, first: float | None) -> str | None:
    status = received[: received.find(b"\r\n")].split(b" ")
    if len(status) < 2 or status[1] != b"200":
        return status[1].decode("ascii", "replace") if len(status) > 1 else received.decode("ascii", "replace") or "cut"
    if ERROR in received:
        return "error event"
    if first is None:
        return "empty"
    if LAST_EVENT not in received:
        return "cut"
    return None
