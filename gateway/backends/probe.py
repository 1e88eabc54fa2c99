"""Small requests to one worker, limited in time and size, in addition to client requests."""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus

from gateway.backends.backend import Call
from gateway.backends.client import WorkerClient
from gateway.backends.upstream.reply import HttpReply
from gateway.protocol.errors import UpstreamError

ANSWER_BYTES = 64 * 1024
"""Maximum number of body bytes to read if only the status of a response matters. Reading them allows the connection to
be reused.
"""
PIECE_BYTES = 64 * 1024
"""Size in bytes of the pieces that are passed on at once. Other tasks can run between two pieces."""


class WorkerProbe:
    """Sender of ``GET`` requests to the worker at *url*. Each request takes at most *timeout_s* seconds."""

    def __init__(
        self, client: WorkerClient, url: str, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> None:
        self._client = client
        self._url = url
        self._timeout_s = timeout_s
        self.fault = "no request has been sent yet"
        """Error of the last request as text, or an empty string if it succeeded."""
        # What was packed small could be of any size.
        fields = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "warmgate", **(headers or {})}
        self._headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in fields.items()]

    async def status(self, path: str) -> int | None:
        """Return the status of the response, or None if no complete response arrived in time."""
        status = await self._ask(path, lambda _, __: None, max_bytes=ANSWER_BYTES)
        if status is not None:
            self.fault = f"GET {path} returned status {status}" if status >= HTTPStatus.BAD_REQUEST else ""
        return status

    async def feed(self, path: str, take: Callable[[bytes], None], *, max_bytes: int) -> bool:
        """Pass the response body to *take* in pieces, up to *max_bytes* bytes. Return whether the request succeeded."""

        def taken(status: int, piece: bytes) -> None:
            if status == 200:
                take(piece)

        return await self._ask(path, taken, max_bytes=max_bytes) == 200

    async def body(self, path: str, *, max_bytes: int) -> bytes | None:
        """Return the body of a successful response, cut off after *max_bytes* bytes. Return None after a failure."""
        body = bytearray()
        return bytes(body) if await self.feed(path, body.extend, max_bytes=max_bytes) else None

    async def _ask(self, path: str, take: Callable[[int, bytes], None], *, max_bytes: int) -> int | None:
        call = Call(b"GET", path.encode("ascii"), self._headers, b"", streams=False, model="")
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await self._client.send(self._url, call)
                try:
                    await _read(reply, take, max_bytes=max_bytes)
                finally:
                    await reply.aclose()
                return reply.status
        except TimeoutError:
            self.fault = f"GET {path} timed out after {self._timeout_s:g} s"
        except UpstreamError as fault:
            self.fault = f"GET {path}: {fault.message}"
        return None


async def _read(reply: HttpReply, take: Callable[[int, bytes], None], *, max_bytes: int) -> None:
    room = max_bytes
    while room > 0 and (received := await reply.read()):
        for begin in range(0, min(len(received), room), PIECE_BYTES):
            if begin:
                await asyncio.sleep(0)
            take(reply.status, received[begin : min(begin + PIECE_BYTES, room)])
        room -= len(received)
