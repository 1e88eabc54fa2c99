"""The interface of the storage of contents: of files, and of batches while they run.

A content has a name, and is never changed: a content with the same name replaces it as a whole. All gateways with the
same store use the same storage.
"""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import IO, NamedTuple, Protocol

PARTIAL_S = 86_400
"""Seconds after which an incomplete content is deleted, because the gateway that wrote it was killed."""


class Piece(NamedTuple):
    """Place of an output."""

    part: str
    """Name of the content that has the output."""
    start: int


@dataclass(frozen=True, slots=True)
class LocalContent:
    """A content in a file on this machine, from the position *start* on. Several threads may read it."""

    file: IO[bytes]
    start: int
    size: int

    def read(self, start: int, length: int) -> bytes:
        """Return *length* bytes from *start* on. The result is shorter at the end of the file. This blocks."""
        return os.pread(self.file.fileno(), length, self.start + start)


class ContentWriter(Protocol):
    """New content, of which nothing is visible until `keep`. Call `discard` in any case at the end.

    All methods but `discard` raise FilesUnavailable if the storage does not take the content.
    """

    async def write(self, data: bytes) -> None: ...

    async def keep(self) -> None:
        """Make the content visible."""
        ...

    async def discard(self) -> None:
        """Delete the content unless it was kept."""
        ...


class Appender(Protocol):
    """Writer of many small contents of one gateway. Call `close` at the end."""

    async def append(self, data: bytes) -> Piece:
        """Keep *data*, and return where it is. All gateways can read it as soon as this method has returned.

        Several callers may append at the same time.

        Raises:
            FilesUnavailable: if the storage does not take the data. The caller may try again.
        """
        ...

    async def close(self) -> None: ...


class Contents(Protocol):
    """Storage of contents. All methods raise FilesUnavailable if the storage does not answer."""

    async def open(self) -> None:
        """Prepare the storage. Every write comes after this."""
        ...

    def close(self) -> None:
        """Close all connections. Nothing is asked after this."""
        ...

    def writer(self, name: str) -> ContentWriter: ...

    def appender(self, prefix: str) -> Appender:
        """Return a writer of contents whose names begin with *prefix*. No other writer may use the prefix."""
        ...

    async def read(self, name: str, start: int, length: int) -> bytes:
        """Return *length* bytes of a content from *start* on. The result is shorter if the content ends before.

        Raises:
            ContentMissing: if there is no such content.
        """
        ...

    def stream(self, name: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a content from *start* to *stop* - 1, in pieces.

        Raises:
            ContentMissing: if there is no such content. This is raised before the first piece.
            FilesUnavailable: if the content ends before *stop*.
        """
        ...

    def local(self, names: Sequence[str]) -> AbstractAsyncContextManager[Mapping[str, LocalContent]]:
        """Return contents in files on this machine, by name. They are there until the context ends.

        Raises:
            ContentMissing: if one of them is missing.
        """
        ...

    async def copy(self, name: str, new_name: str) -> None:
        """Keep a content under another name too.

        Raises:
            ContentMissing: if there is no such content.
        """
        ...

    async def remove(self, name: str) -> None:
        """Delete a content. Do nothing if it does not exist."""
        ...

    async def remove_all(self, prefix: str) -> None:
        """Delete all contents whose names begin with *prefix*."""
        ...

    async def remove_partial(self, now: float) -> None:
        """Delete incomplete contents that were begun or last written long before *now*, in seconds since 1970."""
        ...
