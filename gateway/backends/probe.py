"""Small requests to one worker in addition to callers' requests, bounded in time and bytes."""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus

from gateway.backends.backend import Call
from gateway.backends.client import WorkerClient
from gateway.backends.upstream.reply import HttpReply
from gateway.protocol.errors import UpstreamError

ANSWER_BYTES = 64 * 1024
"""Read of an answer whose status alone counts, so that its connection can be used again."""
PIECE_BYTES = 64 * 1024
"""Handed out at once; requests have their turn before the next."""


class WorkerProbe:
    """Sender of ``GET`` requests to the worker at *url*. Each takes *timeout_s* at most."""

    def __init__(
        self, client: WorkerClient, url: str, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> None:
        self._client = client
        self._url = url
        self._timeout_s = timeout_s
        self.fault = "it was not asked yet"
        """Fault of the last answer to `status`, in words; empty: none."""
        # What was packed small could be of any size.
        fields = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "warmgate", **(headers or {})}
        self._headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in fields.items()]

    async def status(self, path: str) -> int | None:
        """The status; None if there was no whole answer in time."""
        status = await self._ask(path, lambda _, __: None, max_bytes=ANSWER_BYTES)
        if status is not None:
            self.fault = f"GET {path} was answered {status}" if status >= HTTPStatus.BAD_REQUEST else ""
        return status

    async def feed(self, path: str, take: Callable[[bytes], None], *, max_bytes: int) -> bool:
        """Hand the body to *take* in pieces; True if it was a success. Beyond *max_bytes* it is not read."""

        def taken(status: int, piece: bytes) -> None:
            if status == 200:
                take(piece)

        return await self._ask(path, taken, max_bytes=max_bytes) == 200

    async def body(self, path: str, *, max_bytes: int) -> bytes | None:
        """Return the body of a success, cut off after *max_bytes*; None after a failure."""
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
            self.fault = f"GET {path} was not answered within {self._timeout_s:g} s"
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
