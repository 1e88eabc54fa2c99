"""Asks one worker small questions beside the requests: bounded in time and in bytes, whatever it answers."""

import asyncio
from collections.abc import Callable, Mapping

import httpx

ANSWER_BYTES = 64 * 1024
"""Read of an answer whose status alone counts, so that its connection can be used again."""


class Probe:
    """Sends ``GET`` requests to the worker at *url*. Each takes *timeout_s* at most."""

    def __init__(
        self, client: httpx.AsyncClient, url: str, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> None:
        self._client = client
        self._url = url
        self._timeout_s = timeout_s
        # What was packed small could be of any size.
        self._headers = {"accept-encoding": "identity", **(headers or {})}

    async def status(self, path: str) -> int | None:
        """The status; None if there was no whole answer in time."""
        return await self._ask(path, lambda _, __: None, max_bytes=ANSWER_BYTES)

    async def feed(self, path: str, take: Callable[[bytes], None], *, max_bytes: int) -> bool:
        """Hand the body to *take* in pieces; True if it was a success. Beyond *max_bytes* it is not read."""

        def taken(status: int, piece: bytes) -> None:
            if status == 200:
                take(piece)

        return await self._ask(path, taken, max_bytes=max_bytes) == 200

    async def body(self, path: str, *, max_bytes: int) -> bytes | None:
        """The body of a success, cut off after *max_bytes*; None if it was none."""
        body = bytearray()
        return bytes(body) if await self.feed(path, body.extend, max_bytes=max_bytes) else None

    async def _ask(self, path: str, take: Callable[[int, bytes], None], *, max_bytes: int) -> int | None:
        try:
            # The client's own timeouts are off: it has one for each step, which a worker that drips never meets.
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream("GET", self._url + path, headers=self._headers, timeout=None) as response,
            ):
                room = max_bytes
                async for piece in response.aiter_raw():
                    take(response.status_code, piece[:room])
                    room -= len(piece)
                    if room <= 0:
                        break
                return response.status_code
        except (httpx.HTTPError, TimeoutError, AttributeError):
            # The last is anyio's, of a connection that closed while it was being looked at: its socket is None then.
            return None
