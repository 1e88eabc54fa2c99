"""Contents of files in a bucket of Amazon S3, or of another service with the same API.

A content is one object. Gateways need no folder in common: each output of a line is in an object before its result is
stored, so any gateway can continue a batch. `BucketClient` sends the requests, in threads of its own, so the event loop
never waits for the bucket.
"""

import asyncio
import os
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from gateway.batch.bucket_client import BucketClient
from gateway.batch.contents import PARTIAL_S, LocalContent, Piece
from gateway.protocol.errors import ContentMissing, FilesUnavailable

PART_BYTES: Final = 5 * 2**20
"""Size of the parts in which a content is uploaded: S3's minimum."""
READ_BYTES: Final = 256 * 1024
"""Bytes of an answer to read at once."""
READS: Final = 5
"""Number of attempts at an answer that was cut off. Each continues where the one before ended."""
GROUP_BYTES: Final = 8 * 2**20
"""Size from which on an object takes no more outputs."""
LINGER_S: Final = 0.2
"""Seconds to collect outputs for one object, because a request for each output would cost more than the outputs."""
LOCAL: Final = 2
"""Maximum number of batches whose files are on the disk of one gateway at the same time."""
OWN: Final = ("file-", "batch_")
"""Beginnings of the names of contents. Without a prefix, the bucket can have uploads of others."""
DOWNLOADS: Final = 8
"""Maximum number of objects to download at the same time."""


class ObjectWriter:
    """New object, which is uploaded in parts; see `ContentWriter`."""

    def __init__(self, client: BucketClient, name: str) -> None:
        self._client = client
        self._name = name
        self._waiting = bytearray()
        self._upload = ""
        self._parts: list[str] = []
        self._is_kept = False

    async def write(self, data: bytes) -> None:
        self._waiting += data
        while len(self._waiting) >= PART_BYTES:
            await self._send()

    async def keep(self) -> None:
        if not self._upload:
            await self._client.put(self._name, bytes(self._waiting))
        else:
            if self._waiting:
                await self._send()
            await self._client.complete(self._name, self._upload, self._parts)
        self._is_kept = True

    async def discard(self) -> None:
        if self._upload and not self._is_kept:
            with suppress(FilesUnavailable):  # `remove_partial` deletes it later
                await self._client.abort(self._name, self._upload)
        self._upload = ""

    async def _send(self) -> None:
        """Upload the next part."""
        if not self._upload:
            self._upload = await self._client.begin(self._name)
        with memoryview(self._waiting) as view:
            part = bytes(view[:PART_BYTES])
        self._parts.append(await self._client.send_part(self._name, self._upload, len(self._parts) + 1, part))
        del self._waiting[:PART_BYTES]


@dataclass(slots=True, eq=False)
class _Output:
    """Output that waits for its object."""

    data: bytes
    piece: Piece | None = None


class ObjectAppender:
    """Writer that collects outputs for a short time, and writes them to one object; see `Appender`."""

    def __init__(self, client: BucketClient, prefix: str, *, linger_s: float) -> None:
        self._client = client
        self._prefix = prefix
        self._linger_s = linger_s
        self._lock = asyncio.Lock()
        self._waiting: list[_Output] = []
        self._count = 0

    async def append(self, data: bytes) -> Piece:
        output = _Output(data)
        self._waiting.append(output)
        try:
            async with self._lock:  # the first to get it writes the outputs of all who wait
                if output.piece is None:
                    await asyncio.sleep(self._linger_s)
                    await self._write(output)
        finally:
            if output.piece is None:
                self._waiting.remove(output)
        assert output.piece is not None, "it was written"
        return output.piece

    async def close(self) -> None:
        """Do nothing, because every output was written when `append` returned."""

    async def _write(self, first: _Output) -> None:
        """Write *first*, and the outputs that wait with it, to a new object."""
        group, size = [first], len(first.data)
        for output in self._waiting:
            if output is not first and size < GROUP_BYTES:
                group.append(output)
                size += len(output.data)
        self._count += 1
        name = f"{self._prefix}{self._count}.part"
        await self._client.put(name, b"".join(output.data for output in group))
        start = 0
        for output in group:
            output.piece = Piece(name, start)
            start += len(output.data)
        self._waiting = [output for output in self._waiting if output.piece is None]


class Bucket:
    """The objects of a bucket whose names begin with a prefix; see `Contents`.

    Contents that are needed on this machine are in files without names in the folder *scratch*. The system deletes such
    a file as soon as it is closed, also if the gateway is killed.
    """

    def __init__(self, client: BucketClient, *, scratch: Path | None = None, linger_s: float = LINGER_S) -> None:
        self._client = client
        self._scratch = scratch
        self._linger_s = linger_s
        self._local_places = asyncio.Semaphore(LOCAL)

    async def open(self) -> None:
        """Do nothing, because the operator creates the bucket."""

    def close(self) -> None:
        self._client.close()

    def writer(self, name: str) -> ObjectWriter:
        return ObjectWriter(self._client, name)

    def appender(self, prefix: str) -> ObjectAppender:
        return ObjectAppender(self._client, prefix, linger_s=self._linger_s)

    async def read(self, name: str, start: int, length: int) -> bytes:
        return b"".join([data async for data in self._pieces(name, start, start + length)])

    async def stream(self, name: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._pieces(name, start, stop)) as pieces:
            async for data in pieces:
                start += len(data)
                yield data
        if start < stop:
            raise FilesUnavailable("The content of the file is shorter than it was when it was written")

    def local(self, names: Sequence[str]) -> AbstractAsyncContextManager[Mapping[str, LocalContent]]:
        return self._local(names)

    async def copy(self, name: str, new_name: str) -> None:
        await self._client.copy(name, new_name)

    async def remove(self, name: str) -> None:
        await self._client.remove(name)

    async def remove_all(self, prefix: str) -> None:
        after = ""
        while names := await self._client.names(prefix, after=after):
            after = names[-1]
            for at in range(0, len(names), DOWNLOADS):
                await _all(self._client.remove(name) for name in names[at : at + DOWNLOADS])

    async def remove_partial(self, now: float) -> None:
        for name, upload, begun_at in await self._client.uploads():
            if begun_at < now - PARTIAL_S and name.startswith(OWN):
                await self._client.abort(name, upload)

    async def _pieces(self, name: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an object from *start* to *stop* - 1, or to its end. An answer that is cut off is
        continued.
        """
        attempt = 0
        while start < stop:
            attempt += 1
            try:
                async with self._client.opened(name, start, stop) as answer:
                    stop = min(stop, answer.stop)
                    while start < stop:
                        data = await answer.read(READ_BYTES)
                        start += len(data)
                        yield data
            except ContentMissing:
                raise
            except FilesUnavailable:
                if attempt == READS:
                    raise

    @asynccontextmanager
    async def _local(self, names: Sequence[str]) -> AsyncIterator[Mapping[str, LocalContent]]:
        async with self._local_places:
            scratch = await asyncio.to_thread(_Scratch, self._scratch)
            try:
                found: dict[str, LocalContent] = {}
                for at in range(0, len(names), DOWNLOADS):
                    group = names[at : at + DOWNLOADS]
                    contents = await _all(self._downloaded(name, scratch) for name in group)
                    found |= dict(zip(group, contents, strict=True))
                yield found
            finally:
                scratch.close()

    async def _downloaded(self, name: str, scratch: "_Scratch") -> LocalContent:
        """Copy an object to *scratch*."""
        size = await self._client.size(name)
        start = at = scratch.reserve(size)
        async with aclosing(self.stream(name, 0, size)) as pieces:
            async for data in pieces:
                await asyncio.to_thread(scratch.write, data, at)
                at += len(data)
        return LocalContent(scratch.file, start, size)


class _Scratch:
    """File without a name, to which several threads write."""

    def __init__(self, folder: Path | None) -> None:
        try:
            self.file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # `close` closes it
        except OSError as fault:
            raise _no_scratch(fault) from None
        self._end = 0
        self._lock = threading.Lock()

    def reserve(self, size: int) -> int:
        """Return the position of *size* bytes that nothing else uses."""
        start = self._end
        self._end += size
        return start

    def write(self, data: bytes, at: int) -> None:
        with self._lock:  # without it, a thread could write to a file that has the number of this one after `close`
            if self.file.closed:
                return
            try:
                os.pwrite(self.file.fileno(), data, at)
            except OSError as fault:
                raise _no_scratch(fault) from None

    def close(self) -> None:
        with self._lock:
            self.file.close()


async def _all(calls: Any) -> list[Any]:
    """Return the results of all *calls*, or raise the first error after all have ended."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return list(results)


def _no_scratch(fault: OSError) -> FilesUnavailable:
    text = f"The folder for downloads from the bucket (files.s3.scratch_folder) cannot be used: {fault.strerror}"
    return FilesUnavailable(text, retry_after_s=5)
