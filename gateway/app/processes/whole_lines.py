"""Output file that several processes write to, and in which no line is split by a line of another process."""

import select
from collections.abc import Iterator
from typing import Final, Protocol


class Output(Protocol):
    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


ATOMIC_BYTES: Final = select.PIPE_BUF
"""Size up to which the kernel writes data to a pipe in one piece (POSIX, write(2))."""


class WholeLines:
    """Sink that writes lines to *output* in pieces that other processes cannot interrupt.

    A line that is longer than `ATOMIC_BYTES` is written as one piece of its own.
    """

    def __init__(self, output: Output) -> None:
        self._output = output

    def write(self, data: bytes, /) -> None:
        for piece in _pieces(data):
            self._output.write(piece)
            self._output.flush()

    def flush(self) -> None:
        self._output.flush()


def _pieces(data: bytes) -> Iterator[bytes]:
    """Split *data* after lines, into pieces of at most `ATOMIC_BYTES`."""
    at = 0
    while len(data) - at > ATOMIC_BYTES:
        end = data.rfind(b"\n", at, at + ATOMIC_BYTES) + 1 or data.find(b"\n", at) + 1 or len(data)
        yield data[at:end]
        at = end
    if at < len(data):
        yield data[at:]
