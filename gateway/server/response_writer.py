"""Write responses to a client, with flow control."""

import asyncio
from typing import Final

from gateway.server.shared_state import DateLine

_MAX_HELD: Final = 16  # pieces of a response; without a bound an application that never suspends has no back-pressure
_MAX_HELD_BYTES: Final = 4096  # of one piece


class ResponseWriter:
    """Writer for the responses on a connection. After the client has disconnected, it discards all data."""

    __slots__ = ("_dates", "_drained", "_held", "_loop", "_transport", "is_writable")

    def __init__(self, transport: asyncio.Transport, dates: DateLine, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._dates = dates
        self._loop = loop
        self._held: list[bytes] = []  # written at the end of this iteration of the loop
        self._drained: asyncio.Future[None] | None = None
        self.is_writable = True
        """Whether data can be written. The value is False while the client reads too slowly."""

    def pause(self) -> None:
        self.is_writable = False

    def resume(self) -> None:
        """Allow data to be written again, also after the connection is lost, so that no writer waits forever."""
        self.is_writable = True
        waiter, self._drained = self._drained, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def drain(self) -> None:
        """Wait until the client accepts more data or the connection is lost."""
        while not self.is_writable:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def write(self, data: bytes) -> None:
        if self._held:
            self._held.append(data)
            self.flush()
        elif not self._transport.is_closing():  # for uvloop, a write to a closed transport is an error
            self._transport.write(data)

    def write_soon(self, data: bytes) -> None:
        """Write *data* at the end of this iteration of the event loop, together with other data for the client.

        Under load, several events of a stream are then sent at once. One send call costs as much as all other work for
        an event.
        """
        if len(data) > _MAX_HELD_BYTES or len(self._held) == _MAX_HELD:
            self.write(data)
            return
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(data)

    def flush(self) -> None:
        held = self._held
        if held:
            self._held = []
            if not self._transport.is_closing():
                self._transport.write(held[0] if len(held) == 1 else b"".join(held))

    def date_line(self) -> bytes:
        """Return the `date` header line for a response that begins now."""
        return self._dates.line(self._loop.time())
