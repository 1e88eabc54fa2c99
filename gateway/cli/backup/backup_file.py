"""The file of a backup of Redis: a header and records, in MessagePack, with a digest of everything at the end.

WGSTORE1            8 bytes
length, record      4 bytes, big-endian, and so many bytes; the first record is the header
0, SHA-256          4 bytes, and 32 bytes: the digest of all before the 0
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgspec

MAGIC = b"WGSTORE1"
_END = (0).to_bytes(4, "big")


class BackupBroken(Exception):
    """The file is not a backup, or not all of it."""


class Header(msgspec.Struct, frozen=True):
    """First record of a backup."""

    store: str
    """Identity of the store."""
    fingerprint: str
    schema: int
    has_pepper: bool
    written_at: str


class BackupWriter:
    """Writes a new file at *path*, which its owner alone may read. Without `finish` nothing of it stays.

    Raises:
        OSError: the file is there, or cannot be made.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._file: BinaryIO = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._digest = hashlib.sha256()
        self._is_finished = False
        self._put(MAGIC)
        self.write(header)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if not self._is_finished:
            self._path.unlink()

    def write(self, record: Any) -> None:
        data = msgspec.msgpack.encode(record)
        self._put(len(data).to_bytes(4, "big") + data)

    def finish(self) -> None:
        """Write the digest, and wait until all of it is on the disk."""
        self._file.write(_END + self._digest.digest())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._is_finished = True

    def _put(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)


def read_header(path: Path) -> Header:
    """Return the header of the backup at *path*, of which every byte was checked.

    Raises:
        BackupBroken: the file is not a backup, or not all of it.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        digest = hashlib.sha256(magic := file.read(len(MAGIC)))
        if magic != MAGIC:
            raise BackupBroken(f"{path.name} is not a backup of a store in Redis")
        while (length := _length(path, file)) > 0:
            data = file.read(length)
            digest.update(length.to_bytes(4, "big") + data)
        if file.read() != digest.digest():
            raise BackupBroken(f"{path.name} is damaged or incomplete")
    return msgspec.msgpack.decode(next(_raw(path)), type=Header)


def read_records(path: Path) -> Iterator[bytes]:
    """Return the records behind the header, encoded; call `read_header` before."""
    records = _raw(path)
    next(records)
    return records


def _raw(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(len(MAGIC))
        while (length := _length(path, file)) > 0:
            yield file.read(length)


def _length(path: Path, file: BinaryIO) -> int:
    length = file.read(4)
    if len(length) < 4:
        raise BackupBroken(f"{path.name} is damaged or incomplete")
    return int.from_bytes(length, "big")
