"""Callers over HTTP/1.1 who measure the time until the first byte of the answer's body."""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from benchmarks.chat_bodies import PATH

PATIENCE_S = 60.0
"""Seconds that the last requests have to end."""
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"


@dataclass(slots=True)
class Waits:
    """Requests of one measurement, and what their callers waited for."""

    first_byte_s: list[float] = field(default_factory=list)
    failed: int = 0
    took_s: float = 0.0

    @property
    def per_s(self) -> float:
        """Requests per second that ended while the load lasted."""
        return len(self.first_byte_s) / self.took_s


def http_request(authority: str, body: bytes, *, key: str = "benchmark") -> bytes:
    """Return a chat request with *body*."""
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {key}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Callers:
    """Callers with one connection each, who send *requests* in turn."""

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._requests = requests
        self._sent = 0
        self.waits = Waits()
        self.is_over = False

    def next_request(self) -> bytes | None:
        """Return the next request, or None at the end of the measurement."""
        if self.is_over:
            return None
        self._sent += 1
        return self._requests[self._sent % len(self._requests)]

    def note(self, first_byte_s: float | None) -> None:
        """Record one request: the time until its first byte, or None if it failed."""
        if first_byte_s is None:
            self.waits.failed += 1
        elif not self.is_over:
            self.waits.first_byte_s.append(first_byte_s)


class Caller(asyncio.Protocol):
    """Connection of one caller."""

    def __init__(self, callers: Callers, ended: asyncio.Future[None]) -> None:
        self._callers = callers
        self._ended = ended
        self._got = bytearray()
        self._sent_at = 0.0
        self._first_byte_s: float | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like asyncio's
        self._send()

    def data_received(self, data: bytes) -> None:
        self._got += data
        head_end = self._got.find(b"\r\n\r\n")
        if head_end < 0 or len(self._got) == head_end + 4:
            return
        if self._first_byte_s is None:
            self._first_byte_s = time.perf_counter() - self._sent_at
        if not self._got.startswith(b"HTTP/1.1 200 "):
            self._callers.note(None)
            self._transport.close()
        elif _is_whole(self._got, head_end):
            self._callers.note(self._first_byte_s)
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._callers.note(None)
        if not self._ended.done():
            self._ended.set_result(None)

    def _send(self) -> None:
        request = self._callers.next_request()
        if request is None:
            self._transport.close()
            return
        self._got.clear()
        self._first_byte_s = None
        self._sent_at = time.perf_counter()
        self._transport.write(request)


def _is_whole(got: bytearray, head_end: int) -> bool:
    """Return whether the answer in *got* has its whole body, with a length or in chunks."""
    length = _LENGTH.search(got, 0, head_end + 2)
    return got.endswith(_LAST_CHUNK) if length is None else len(got) >= head_end + 4 + int(length[1])


async def waits(address: str, bodies: Sequence[bytes], count: int, *, seconds: float) -> Waits:
    """Keep *count* requests in flight at the HTTP *address* for *seconds*."""
    loop = asyncio.get_running_loop()
    host, _, port = address.rpartition(":")
    callers = Callers([http_request(address, body) for body in bodies])
    began = time.perf_counter()
    ends = [loop.create_future() for _ in range(count)]
    for ended in ends:
        await loop.create_connection(lambda ended=ended: Caller(callers, ended), host, int(port))  # type: ignore[misc]
    await asyncio.sleep(seconds)
    callers.waits.took_s = time.perf_counter() - began
    callers.is_over = True
    await asyncio.wait_for(asyncio.gather(*ends), PATIENCE_S)
    return callers.waits
