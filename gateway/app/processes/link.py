"""Connection of one process of a gateway to its supervisor, from the side of the process."""

import asyncio
import itertools
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from gateway.app.processes.messages import MAX_LINE_BYTES, Assignment, Message, assignment_of, decoded, encoded
from gateway.app.store_rules import TablePlace
from gateway.workers.replicas.replicas import HubPlace

MERGE_S = 5.0
"""Seconds to wait for the metrics of all processes. After that, a process exposes its own metrics."""

Act = Callable[[Message], object]


class ProcessLink:
    """Connection to the supervisor on *control*. The gateway gives its functions to `attach` before `run`."""

    def __init__(self, control: socket.socket) -> None:
        """Wait for the assignment of this process."""
        self._control = control
        self.assignment: Assignment = assignment_of(_line(control))
        self._writer: asyncio.StreamWriter | None = None
        self._exposition: Callable[[], bytes] = bytes
        self._sliced_exposition: Callable[[], Awaitable[bytes]] = _nothing
        self._acts: dict[str, Act] = {"merged": self._give}
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._ids = itertools.count()

    @property
    def number(self) -> int:
        return self.assignment.number

    @property
    def is_store_hidden(self) -> bool:
        """Whether the settings name no store, and the supervisor has one for its processes."""
        return self.assignment.is_store_hidden

    @property
    def table(self) -> TablePlace | None:
        """Table of limits of the processes, or None if a server counts their limits."""
        assigned = self.assignment
        return None if assigned.table is None else TablePlace(assigned.table, assigned.seat)

    @property
    def hub(self) -> HubPlace | None:
        """Hub of the processes, or None if they exchange messages through Redis."""
        assigned = self.assignment
        return None if assigned.hub is None else HubPlace(assigned.hub, bytes.fromhex(assigned.hub_key))

    def attach(
        self, exposition: Callable[[], bytes], sliced_exposition: Callable[[], Awaitable[bytes]], **acts: Act
    ) -> None:
        """Answer requests for metrics with *sliced_exposition*, which lets requests run in between, and call the
        function in *acts* for each kind of message. *exposition* returns the same metrics at once.
        """
        self._exposition = exposition
        self._sliced_exposition = sliced_exposition
        self._acts |= acts

    async def run(self) -> None:
        """Handle the messages of the supervisor until canceled. If the supervisor has ended, stop this process."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._control.dup(), limit=MAX_LINE_BYTES)
        try:
            while line := await reader.readline():
                message = decoded(line)
                if message["kind"] == "expose":
                    self.send("exposed", id=message["id"], text=(await self._sliced_exposition()).decode())
                else:
                    self._acts[message["kind"]](message)
            signal.raise_signal(signal.SIGTERM)
        finally:
            self._writer.close()
            self._writer = None

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message. Before and after `run`, this waits until the message is written."""
        data = encoded(kind, **fields)
        if self._writer is not None:
            self._writer.write(data)
            return
        with suppress(OSError):  # the supervisor has ended
            self._control.setblocking(True)
            self._control.sendall(data)

    def send_soon(self, kind: str) -> None:
        """Send a message from a signal handler."""
        asyncio.get_running_loop().call_soon_threadsafe(self.send, kind)

    def send_last(self) -> None:
        """Send the final metrics of this process, which has served its last request."""
        self.send("last", text=self._exposition().decode())

    async def merged_metrics(self) -> bytes:
        """Return the metrics of all processes, or those of this process if the supervisor does not answer."""
        number = next(self._ids)
        merged: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[number] = merged
        self.send("merge", id=number)
        try:
            async with asyncio.timeout(MERGE_S):
                return await merged
        except TimeoutError:
            return self._exposition()
        finally:
            del self._asked[number]

    def _give(self, message: Message) -> None:
        asked = self._asked.get(message["id"])
        if asked is not None and not asked.done():
            asked.set_result(message["text"].encode())


async def _nothing() -> bytes:
    return b""


def _line(control: socket.socket) -> bytes:
    """Return the first line that arrives on *control*, after which the supervisor waits for an answer."""
    received = b""
    while not received.endswith(b"\n"):
        received += (more := control.recv(65536))
        if not more:
            raise ConnectionError("The supervisor has ended.")
    return received
