"""Files that teams upload for batches, and files that batches write. The store has their properties, and a folder or a
bucket their contents.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from gateway.batch.contents import Contents
from gateway.batch.form_stream import FormStream
from gateway.batch.records import Record, RecordStore
from gateway.protocol.errors import (
    AtCapacity,
    BodyTooLarge,
    FilesUnavailable,
    InvalidField,
    MalformedBody,
    QuotaSpent,
    StoreUnavailable,
    UnknownFile,
)

_log = logging.getLogger(__name__)

Purpose = Literal["batch", "batch_output"]

WRITE_BYTES: Final = 2**20
"""Bytes of an upload to collect before they are written."""
UPLOADS: Final = 8
"""Maximum number of uploads that one gateway receives at the same time, with about 3 MiB of memory each, or 12 MiB if
their contents go to a bucket.
"""
MAX_FILENAME: Final = 255
"""Maximum number of characters of a file name."""
SWEEP_S: Final = 60.0
"""Seconds between two searches for expired files."""
SWEPT: Final = 200
"""Maximum number of expired files to delete at once."""
FORM_BYTES: Final = 64 * 1024
"""Bytes of a form that the limit of files allows in addition to the file."""
_UNLIMITED: Final = 2**62
EXPIRY_S: Final = (3600, 2_592_000)
"""Shortest and longest time in seconds after which a file expires, as in OpenAI's API."""


@dataclass(frozen=True, slots=True)
class FileRules:
    """Limits of files."""

    max_file_bytes: int
    max_lines: int
    """Maximum number of lines of a file for a batch."""
    max_team_bytes: int
    """Maximum number of bytes of all files of a team."""
    max_team_files: int
    keep_s: float
    """Seconds after which a file expires if the caller names no time."""


class FileInfo(msgspec.Struct, frozen=True):
    """Properties of a file, as the store has them."""

    filename: str
    purpose: Purpose
    bytes: int
    lines: int
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class TeamFile:
    """File of a team."""

    id: str
    team: str
    info: FileInfo


class Files:
    """Files of all teams. Every method takes the team, and finds no file of another team. *contents* has the contents
    of files under their ids.
    """

    def __init__(
        self, store: RecordStore, contents: Contents, rules: FileRules, *, wall_clock: Callable[[], float]
    ) -> None:
        self._store = store
        self.contents = contents
        self._rules = rules
        self._wall_clock = wall_clock
        self._uploads = 0

    @property
    def rules(self) -> FileRules:
        return self._rules

    async def upload(self, team: str, content_type: bytes, body: AsyncIterator[bytes]) -> TeamFile:
        """Receive a form with a file from *body*, and return the new file of *team*. The file is never in memory as a
        whole.

        Raises:
            MalformedBody, InvalidField: if the form or a field of it is invalid.
            BodyTooLarge: if the file exceeds the limit of bytes or lines.
            QuotaSpent: if the team has no room for the file.
            AtCapacity: if this gateway is receiving too many files.
            FilesUnavailable, StoreUnavailable: if the file cannot be kept.
        """
        form = FormStream(content_type)
        if self._uploads >= UPLOADS:
            text = f"The gateway is receiving {UPLOADS} files, which is its limit. Retry in 5 s."
            raise AtCapacity(text, retry_after_s=5)
        self._uploads += 1
        try:
            return await self._received(team, form, body)
        finally:
            self._uploads -= 1

    async def add(self, team: str, file_id: str, info: FileInfo, *, is_limited: bool = True) -> TeamFile:
        """Add a file to the store, whose content is written already. An existing file with this id stays as it
        is. The limits of the team apply if *is_limited* is true. Results of batches are kept in any case.

        Raises:
            QuotaSpent: if the team has no room for the file. Its content then stays.
            StoreUnavailable: if the store does not answer.
        """
        rules = self._rules
        record = Record(file_id, team, float(info.expires_at), info.bytes, msgspec.json.encode(info))
        most = (rules.max_team_files, rules.max_team_bytes) if is_limited else (_UNLIMITED, _UNLIMITED)
        if not await self._store.add(record, max_count=most[0], max_size=most[1]):
            text = (
                f"The team has no room for the file: it may keep {rules.max_team_files} files "
                f"(files.max_team_files) with {rules.max_team_bytes} bytes (files.max_team_bytes). Delete files."
            )
            raise QuotaSpent(text)
        return TeamFile(file_id, team, info)

    async def find(self, team: str, file_id: str, *, param: str = "file_id") -> TeamFile:
        """Return a file of *team*. *param* is the name of the field with the id, for the error.

        Raises:
            UnknownFile: if the team has no such file, or it has expired.
            StoreUnavailable: if the store does not answer.
        """
        record = await self._store.find(team, file_id)
        if record is None or record.due_at <= self._wall_clock():
            raise unknown_file(file_id, param)
        return _file(record)

    async def content(self, file: TeamFile, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """Return the bytes of the content of *file* from *start* to *stop* - 1, in pieces. The caller must close the
        iterator.

        Raises:
            FilesUnavailable: if the content cannot be read.
        """
        pieces = self.contents.stream(file.id, start, stop)
        return _begun(await anext(pieces, b""), pieces)

    async def page(
        self, team: str, *, after: str | None, limit: int, newest_first: bool, purpose: str | None
    ) -> tuple[list[TeamFile], bool]:
        """Return up to *limit* files of *team* after the file *after*, and whether more files follow.

        Only files with the given *purpose* are returned, unless it is None.

        Raises:
            InvalidField: if the team has no file *after*.
            StoreUnavailable: if the store does not answer.
        """
        found: list[TeamFile] = []
        now = self._wall_clock()
        while len(found) <= limit:
            asked = limit + 1
            page = await self._store.page(team, after=after, limit=asked, newest_first=newest_first)
            if page is None:
                raise InvalidField(
                    f"'after' must be the id of a file, and {str(after)[:100]!r} is not one", param="after"
                )
            files = [_file(record) for record in page if record.due_at > now]
            found += [file for file in files if purpose is None or file.info.purpose == purpose]
            if len(page) < asked:
                break
            after = page[-1].id
        return found[:limit], len(found) > limit

    async def remove(self, team: str, file_id: str) -> None:
        """Delete a file of *team* with its content.

        Raises:
            UnknownFile: if the team has no such file.
            FilesUnavailable, StoreUnavailable: if the file cannot be deleted.
        """
        if await self._store.find(team, file_id) is None:
            raise unknown_file(file_id)
        # The content goes first: if its removal fails, the file is still there, and can be deleted again.
        await self.contents.remove(file_id)
        await self._store.remove(team, file_id)

    async def run(self) -> None:
        """Delete expired files and incomplete uploads in the background until canceled."""
        while True:
            try:
                await self.sweep()
            except (StoreUnavailable, FilesUnavailable) as fault:
                _log.warning("expired files were not deleted: %s", fault)
            await asyncio.sleep(SWEEP_S)

    async def sweep(self) -> None:
        """Delete expired files and incomplete uploads.

        Raises:
            FilesUnavailable, StoreUnavailable: if something could not be deleted.
        """
        now = self._wall_clock()
        await self.contents.open()
        for record in await self._store.due(now, SWEPT):
            await self.contents.remove(record.id)
            await self._store.remove(record.team, record.id)
        await self.contents.remove_partial(now)

    async def _received(self, team: str, form: FormStream, body: AsyncIterator[bytes]) -> TeamFile:
        file_id = f"file-{secrets.token_hex(16)}"
        await self.contents.open()
        writer = self.contents.writer(file_id)
        try:
            counts = _Counts(self._rules)
            waiting = bytearray()
            async for data in body:
                part = form.feed(data)
                counts.add(part)
                waiting += part
                if len(waiting) >= WRITE_BYTES:
                    await writer.write(bytes(waiting))
                    waiting.clear()
            form.finish()
            info = self._info(form, counts)
            await writer.write(bytes(waiting))
            await writer.keep()
            try:
                return await self.add(team, file_id, info)
            except QuotaSpent:
                await self.contents.remove(file_id)
                raise
        finally:
            await writer.discard()

    def _info(self, form: FormStream, counts: "_Counts") -> FileInfo:
        """Return the properties of the file in the complete *form*."""
        fields = dict(form.fields)
        purpose = fields.pop("purpose", None)
        if purpose != "batch":
            raise InvalidField(
                "'purpose' must be 'batch', because the gateway keeps files only for batches", param="purpose"
            )
        if counts.bytes == 0:
            raise InvalidField("'file' must not be empty", param="file")
        now = int(self._wall_clock())
        keep_s = _expiry_in(fields)
        if fields:
            name = min(fields)
            raise InvalidField(f"The field '{name}' is not known. Omit it.", param=name)
        expires_at = now + int(self._rules.keep_s if keep_s is None else keep_s)
        filename = (form.filename or "file")[:MAX_FILENAME]
        return FileInfo(filename, "batch", counts.bytes, counts.lines, now, expires_at)


class _Counts:
    """Bytes and lines of a file that is being received."""

    def __init__(self, rules: FileRules) -> None:
        self._rules = rules
        self._ends_line = True
        self._newlines = 0
        self.bytes = 0

    @property
    def lines(self) -> int:
        return self._newlines + (not self._ends_line)

    def add(self, data: bytes) -> None:
        """Count *data*.

        Raises:
            BodyTooLarge: if a limit is exceeded.
        """
        if not data:
            return
        self.bytes += len(data)
        self._newlines += data.count(b"\n")
        self._ends_line = data.endswith(b"\n")
        rules = self._rules
        if self.bytes > rules.max_file_bytes:
            text = f"The file has more than {rules.max_file_bytes} bytes, which is the limit (files.max_file_bytes)"
            raise BodyTooLarge(text, param="file")
        if self.lines > rules.max_lines:
            text = f"The file has more than {rules.max_lines} lines, which is the limit (files.max_lines)"
            raise BodyTooLarge(text, param="file")


async def _begun(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield *first* and then *rest*."""
    async with aclosing(rest):
        yield first
        async for data in rest:
            yield data


def expiry_s(anchor: object, seconds: object, field: str) -> int:
    """Return the seconds of an expiry after the time of creation. *field* is the name of the field with both values.

    Raises:
        InvalidField: if a value is invalid.
    """
    shortest, longest = EXPIRY_S
    if anchor != "created_at":
        raise InvalidField(f"'{field}.anchor' must be 'created_at'", param=f"{field}.anchor")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not shortest <= seconds <= longest:
        raise InvalidField(f"'{field}.seconds' must be between {shortest} and {longest}", param=f"{field}.seconds")
    return seconds


def unknown_file(file_id: str, param: str = "file_id") -> UnknownFile:
    """Return the error for an id that is not the id of a file of the team."""
    return UnknownFile(f"The file {file_id[:100]!r} does not exist", param=param)


def check_upload_type(content_type: bytes, encoding: bytes | None) -> None:
    """Raise MalformedBody if the headers of an upload say that the body is compressed or is not a form."""
    if encoding is not None and encoding.strip().lower() != b"identity":
        raise MalformedBody("An upload of a file must not be compressed: omit the header content-encoding")
    FormStream(content_type)


def _expiry_in(fields: dict[str, str]) -> int | None:
    """Remove the fields about the expiry from *fields*, and return the seconds, or None without such fields."""
    anchor, text = fields.pop("expires_after[anchor]", None), fields.pop("expires_after[seconds]", None)
    if anchor is None and text is None:
        return None
    seconds = int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None
    return expiry_s(anchor, seconds, "expires_after")


def _file(record: Record) -> TeamFile:
    return TeamFile(record.id, record.team, msgspec.json.decode(record.row, type=FileInfo))
