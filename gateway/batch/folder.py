"""Contents of files in one folder. All gateways with the same store must see the same folder.

While a content is being written, its file has another name, so that a gateway that was killed leaves no content that
looks complete.
"""

import asyncio
import os
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, Final

from gateway.batch.contents import PARTIAL_S, LocalContent, Piece
from gateway.protocol.errors import ContentMissing, FilesUnavailable

PARTIAL: Final = ".partial"
"""Ending of the names of contents that are being written."""
READ_BYTES: Final = 256 * 1024
"""Bytes of a stream to read at once."""


class FileWriter:
    """New content of a folder; see `ContentWriter`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._target = folder / name
        self._path = folder / f"{name}.{secrets.token_hex(4)}{PARTIAL}"
        self._file: IO[bytes] | None = None

    async def write(self, data: bytes) -> None:
        await asyncio.to_thread(self._write, data)

    async def keep(self) -> None:
        await asyncio.to_thread(self._keep)

    async def discard(self) -> None:
        await asyncio.to_thread(self._discard)

    def _write(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._file = self._path.open("xb")
            self._file.write(data)
        except OSError as fault:
            raise _unusable(fault) from None

    def _keep(self) -> None:
        self._write(b"")
        assert self._file is not None, "it was opened by the write"
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._path.replace(self._target)
        except OSError as fault:
            raise _unusable(fault) from None

    def _discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


class FileAppender:
    """Writer that appends all outputs of one gateway to one file; see `Appender`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._is_closed = False
        self._turn = asyncio.Lock()
        """Lock of callers, so that they occupy one thread at a time."""
        self._lock = threading.Lock()
        """Lock of threads, because the thread of an `append` that was cancelled still writes."""

    async def append(self, data: bytes) -> Piece:
        async with self._turn:
            return Piece(self._path.name, await asyncio.to_thread(self._append, data))

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _append(self, data: bytes) -> int:
        with self._lock:
            if self._is_closed:
                raise FilesUnavailable("The gateway no longer runs lines of the batch")
            try:
                if self._file is None:
                    self._file = self._path.open("ab")
                start = self._file.seek(0, os.SEEK_END)
                self._file.write(data)
                self._file.flush()
            except OSError as fault:
                raise _unusable(fault) from None
            return start

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()


class Folder:
    """The folder *path* with the contents of files; see `Contents`. It is created if it does not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def open(self) -> None:
        """Create the folder if it does not exist, readable only by its owner."""
        try:
            await asyncio.to_thread(self.path.mkdir, 0o700, parents=True, exist_ok=True)
        except OSError as fault:
            raise _unusable(fault) from None

    def close(self) -> None:
        """Do nothing, because a folder has no connections."""

    def writer(self, name: str) -> FileWriter:
        return FileWriter(self.path, name)

    def appender(self, prefix: str) -> FileAppender:
        return FileAppender(self.path / f"{prefix}part")

    async def read(self, name: str, start: int, length: int) -> bytes:
        return await asyncio.to_thread(self._read, name, start, length)

    async def stream(self, name: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        file = await asyncio.to_thread(self._opened, name)
        try:
            while start < stop:
                data = await asyncio.to_thread(os.pread, file.fileno(), min(READ_BYTES, stop - start), start)
                if not data:
                    raise FilesUnavailable("The content of the file is shorter than it was when it was written")
                start += len(data)
                yield data
        finally:
            file.close()

    def local(self, names: Sequence[str]) -> AbstractAsyncContextManager[Mapping[str, LocalContent]]:
        return self._local(names)

    async def copy(self, name: str, new_name: str) -> None:
        await asyncio.to_thread(self._copy, name, new_name)

    async def remove(self, name: str) -> None:
        await asyncio.to_thread(self._remove, [self.path / name])

    async def remove_all(self, prefix: str) -> None:
        await asyncio.to_thread(lambda: self._remove(self.path.glob(f"{prefix}*")))

    async def remove_partial(self, now: float) -> None:
        await asyncio.to_thread(self._remove_partial, now)

    @asynccontextmanager
    async def _local(self, names: Sequence[str]) -> AsyncIterator[Mapping[str, LocalContent]]:
        with ExitStack() as exits:
            yield await asyncio.to_thread(self._all_opened, names, exits)

    def _all_opened(self, names: Sequence[str], exits: ExitStack) -> dict[str, LocalContent]:
        files = {name: exits.enter_context(self._opened(name)) for name in names}
        return {name: LocalContent(file, 0, os.fstat(file.fileno()).st_size) for name, file in files.items()}

    def _read(self, name: str, start: int, length: int) -> bytes:
        with self._opened(name) as file:
            return os.pread(file.fileno(), length, start)

    def _opened(self, name: str) -> IO[bytes]:
        try:
            return (self.path / name).open("rb")
        except OSError as fault:
            raise _unusable(fault) from None

    def _copy(self, name: str, new_name: str) -> None:
        """Add a link to a content, so that it takes no space."""
        try:
            (self.path / new_name).unlink(missing_ok=True)
            os.link(self.path / name, self.path / new_name)
        except OSError as fault:
            raise _unusable(fault) from None

    def _remove(self, paths: Iterable[Path]) -> None:
        try:
            for path in paths:
                path.unlink(missing_ok=True)
        except OSError as fault:
            raise _unusable(fault) from None

    def _remove_partial(self, now: float) -> None:
        try:
            found = [path for path in self.path.iterdir() if path.name.endswith(PARTIAL)]
            for path in found:
                if path.stat().st_mtime < now - PARTIAL_S:
                    path.unlink(missing_ok=True)
        except OSError:
            return  # another gateway may delete them at the same time; a later call deletes the rest


def _unusable(fault: OSError) -> FilesUnavailable:
    if isinstance(fault, FileNotFoundError):
        text = f"The folder of this gateway (files.folder) does not have the content of the file: {fault.strerror}"
        return ContentMissing(text, retry_after_s=5)
    return FilesUnavailable(f"The folder of files cannot be used: {fault.strerror}", retry_after_s=5)
