"""One process of a gateway, from the side of the supervisor."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.app.processes.messages import MAX_LINE_BYTES, Assignment, Message, decoded, encoded

EXPOSE_S: Final = 2.0
"""Seconds that a process may take to send its metrics. After that, the former ones are used."""

OnMessage = Callable[["Child", Message], object]


class Child:
    """A running process. `start` creates it."""

    def __init__(
        self, assignment: Assignment, process: asyncio.subprocess.Process, writer: asyncio.StreamWriter
    ) -> None:
        self.number = assignment.number
        self.seat = assignment.seat
        self._process = process
        self._writer = writer
        self.started = asyncio.Event()
        """Event that is set when the process serves requests."""
        self.leaving = asyncio.Event()
        """Event that is set when the process begins to stop, or has ended."""
        self.ended = asyncio.Event()
        self.exposition = ""
        """The last metrics that the process sent."""
        self._asked: dict[int, asyncio.Future[None]] = {}
        self._expositions = 0

    @classmethod
    async def start(
        cls, command: Sequence[str], assignment: Assignment, *, keeps: Sequence[int] = ()
    ) -> tuple["Child", asyncio.StreamReader]:
        """Start a process, and return it with the reader for `listen`. It keeps the descriptors *keeps* open."""
        ours, theirs = socket.socketpair()
        inherited = [assignment.listener, assignment.admin, assignment.probes, assignment.table, assignment.hub]
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(*command, "--control", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), *(each for each in inherited if each is not None), *keeps],
                # The terminal sends its signals to the supervisor alone, which passes them on.
                start_new_session=True,
            )
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_LINE_BYTES)
        writer.write(msgspec.json.encode(assignment) + b"\n")
        return cls(assignment, process, writer), reader

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def serves(self) -> bool:
        return self.started.is_set() and not self._writer.is_closing()

    async def listen(self, reader: asyncio.StreamReader, on_message: OnMessage) -> int:
        """Pass the messages of the process to *on_message* until it ends. Return its exit code."""
        with suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                self._handle(decoded(line), on_message)
        self._writer.close()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(None)
        code = await self._process.wait()
        self.leaving.set()
        self.ended.set()
        return code

    def send(self, kind: str, **fields: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(encoded(kind, **fields))

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def refresh(self) -> None:
        """Ask the process for its current metrics."""
        if not self.serves:
            return
        self._expositions += 1
        number, asked = self._expositions, asyncio.get_running_loop().create_future()
        self._asked[number] = asked
        self.send("expose", id=number)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(EXPOSE_S):
                    await asked
        finally:
            del self._asked[number]

    def _handle(self, message: Message, on_message: OnMessage) -> None:
        kind = message["kind"]
        if kind == "exposed":
            self.exposition = message["text"]
            asked = self._asked.get(message["id"])
            if asked is not None and not asked.done():
                asked.set_result(None)
        elif kind == "last":
            self.exposition = message["text"]
        elif kind == "ready":
            self.started.set()
        elif kind == "stopping":
            self.leaving.set()
        on_message(self, message)


def exit_text(code: int) -> str:
    """Return how a process ended with the exit code *code*, for a sentence."""
    if code < 0:
        with suppress(ValueError):
            return f"was ended by the signal {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def cores(cpu_limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the number of processor cores that this process may use, within the limit of its container."""
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = cpu_limit.read_text(encoding="ascii").split()  # "max" without a limit
        return max(1, min(allowed, int(quota) // int(period)))
    return allowed
