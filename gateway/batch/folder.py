"""Contents of files in one folder. All gateways with the same store must see the same folder.

A content has the id of its file as its name. While it is being written, it has another name, so that a gateway that was
killed leaves no content that looks complete.
"""

import asyncio
import os
import secrets
from pathlib import Path
from typing import IO

from gateway.protocol.errors import FilesUnavailable

PARTIAL = ".partial"
"""Ending of the names of contents that are being written."""
PARTIAL_S = 86_400
"""Seconds after its last write after which an incomplete content is deleted."""


class ContentWriter:
    """New content, of which nothing is visible until `keep`. Call `discard` in any case at the end."""

    def __init__(self, folder: Path, file_id: str) -> None:
        self._target = folder / file_id
        self._path = folder / f"{file_id}.{secrets.token_hex(4)}{PARTIAL}"
        self._file: IO[bytes] | None = None

    async def write(self, data: bytes) -> None:
        """Append *data*.

        Raises:
            FilesUnavailable: if the disk is full or the folder cannot be written.
        """
        await asyncio.to_thread(self._write, data)

    async def keep(self) -> None:
        """Make the content visible under the id of the file.

        Raises:
            FilesUnavailable: if the content cannot be written to the disk.
        """
        await asyncio.to_thread(self._keep)

    async def discard(self) -> None:
        """Delete the content unless it was kept."""
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


class Folder:
    """The folder *path* with the contents of files, which is created if it does not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def writer(self, file_id: str) -> ContentWriter:
        """Return a writer of the content of a new file. The method `open` must have been called before."""
        return ContentWriter(self.path, file_id)

    async def open(self) -> None:
        """Create the folder if it does not exist, readable only by its owner.

        Raises:
            FilesUnavailable: if it cannot be created.
        """
        try:
            await asyncio.to_thread(self.path.mkdir, 0o700, parents=True, exist_ok=True)
        except OSError as fault:
            raise _unusable(fault) from None

    async def remove(self, file_id: str) -> None:
        """Delete the content of a file. Do nothing if it does not exist.

        Raises:
            FilesUnavailable: if it cannot be deleted.
        """
        try:
            await asyncio.to_thread((self.path / file_id).unlink, missing_ok=True)
        except OSError as fault:
            raise _unusable(fault) from None

    async def remove_partial(self, now: float) -> None:
        """Delete incomplete contents that were last written long before *now*, in seconds since 1970."""
        await asyncio.to_thread(self._remove_partial, now)

    def content_of(self, file_id: str) -> Path:
        """Return the path of the content of a file.

        Raises:
            FilesUnavailable: if this gateway cannot see the content.
        """
        path = self.path / file_id
        if not path.is_file():
            raise FilesUnavailable("The content of the file is not in the folder of this gateway (files.folder)")
        return path

    def _remove_partial(self, now: float) -> None:
        try:
            found = [path for path in self.path.iterdir() if path.name.endswith(PARTIAL)]
            for path in found:
                if path.stat().st_mtime < now - PARTIAL_S:
                    path.unlink(missing_ok=True)
        except OSError:
            return  # another gateway may delete them at the same time; a later call deletes the rest


def _unusable(fault: OSError) -> FilesUnavailable:
    return FilesUnavailable(f"The folder of files cannot be used: {fault.strerror}", retry_after_s=5)
