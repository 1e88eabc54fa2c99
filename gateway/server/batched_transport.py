"""Fewer system calls: what is written while the loop runs its callbacks leaves in one piece at their end."""

import asyncio
from typing import Any


class BatchedTransport(asyncio.Transport):
    """Wraps the transport of a connection. uvicorn writes head and body of an answer one after the other; a send costs
    as much as parsing the request did, so both go out with one.

    Nothing is held longer than one turn of the loop, and back-pressure stays with the wrapped transport.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held: list[bytes | bytearray | memoryview[Any]] = []

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._held.clear()
        self._transport.abort()

    def write_eof(self) -> None:
        self._flush()
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + sum(map(len, self._held))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def _flush(self) -> None:
        held = self._held
        if held:
            self._held = []
            if self._transport.is_closing():
                return  # the peer has gone; to uvloop, a write would be an error
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))
