"""Streamed answer to a client, formatted as set by /control/sse. The drip fault splits it into small pieces."""

import asyncio
from collections.abc import Iterable

from simulator.exchange import HttpExchange
from simulator.sse import Event, Spelling, SseEncoder


class EventStream:
    """Response stream that is sent in pieces of *drip_bytes* bytes, or unchanged if *drip_bytes* is None.

    If *is_buffered* is true, the whole response, including its head, is sent at the end, as by a buffering proxy.
    """

    def __init__(
        self,
        exchange: HttpExchange,
        spelling: Spelling,
        *,
        drip_bytes: int | None = None,
        is_buffered: bool = False,
    ) -> None:
        self._exchange = exchange
        self._encoder = SseEncoder(spelling)
        self._drip_bytes = drip_bytes
        self._buffer: bytearray | None = bytearray() if is_buffered else None

    async def start(self) -> None:
        if self._buffer is None:
            await self._exchange.start_stream()

    async def write(self, events: Iterable[Event]) -> None:
        data = self._encoder.encode(events)
        if self._buffer is not None:
            self._buffer += data
            return
        step = self._drip_bytes or len(data)
        for at in range(0, len(data), step or 1):
            await self._exchange.write(data[at : at + step])
            if self._drip_bytes is not None:
                await asyncio.sleep(0)  # else one system call could carry several drips

    async def end(self, events: Iterable[Event]) -> None:
        await self.write(events)
        if self._buffer is not None:
            await self._exchange.start_stream()
        await self._exchange.end_stream(bytes(self._buffer or b""))
