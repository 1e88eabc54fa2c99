"""File format of a Redis backup: a header and records in MessagePack, followed by a digest of the whole file.

WGSTORE1            8 bytes
length, record      length in 4 bytes, big-endian, then the record; the first record is the header
0, SHA-256          4 bytes of zeros, then 32 bytes with the digest of everything before the zeros
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
    """The file is not a backup, or the backup is damaged or incomplete."""


class Header(msgspec.Struct, frozen=True):
    """First record of a backup file, which describes the store that was backed up."""

    store: str
    """Identifier of the store that was backed up."""
    fingerprint: str
    schema: int
    has_pepper: bool
    written_at: str


class BackupWriter:
    """Writer of a new backup file at *path*, readable only by its owner. Unless `finish` is called, it is deleted.

    Raises:
        OSError: if the file exists already or cannot be created.
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
        """Write the digest and flush the backup file to disk."""
        self._file.write(_END + self._digest.digest())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._is_finished = True

    def _put(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)


def read_header(path: Path) -> Header:
    """Check the digest of the backup at *path* and return its header.

    Raises:
        BackupBroken: if the file is not a backup, or is damaged or incomplete.
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        digest = hashlib.sha256(magic := file.read(len(MAGIC)))
        if magic != MAGIC:
            raise BackupBroken(f"{path.name} is not a backup of a Redis store")
        while (length := _length(path, file)) > 0:
            data = file.read(length)
            digest.update(length.to_bytes(4, "big") + data)
        if file.read() != digest.digest():
            raise BackupBroken(f"{path.name} is damaged or incomplete")
    return msgspec.msgpack.decode(next(_raw(path)), type=Header)


def read_records(path: Path) -> Iterator[bytes]:
    """Return the encoded records after the header of the backup. Call `read_header` first to verify the file."""
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
