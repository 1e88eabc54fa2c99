"""Outputs of the lines of a batch, and the files that are made of them.

Each gateway appends the outputs of its lines to a file of its own, and then stores where they are. An output that was
appended but not stored, because the gateway was killed, is never read. At the end, one gateway copies the outputs in
the order of the input file.
"""

import asyncio
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from gateway.batch.batch import BatchUsage
from gateway.batch.folder import PARTIAL
from gateway.batch.line_call import error_of
from gateway.batch.line_store import LineResult
from gateway.batch.plan import PlannedLine, planned_lines, read_line
from gateway.protocol.errors import FilesUnavailable


class BatchFolder:
    """Files of the batch *batch_id* in *folder* while it runs."""

    def __init__(self, folder: Path, batch_id: str) -> None:
        self._folder = folder
        self._batch_id = batch_id

    @property
    def input(self) -> Path:
        """The input file. It is a link to the uploaded file, whose owner may delete it while the batch runs."""
        return self._folder / f"{self._batch_id}.input"

    @property
    def plan(self) -> Path:
        """The order of the lines."""
        return self._folder / f"{self._batch_id}.plan"

    def part(self, owner: str) -> Path:
        """The outputs of the lines that *owner* ran."""
        return self._folder / f"{self._batch_id}.{owner}.part"

    def link(self, uploaded: Path) -> None:
        """Keep the uploaded file until the batch ends.

        Raises:
            OSError: if it does not exist, or the folder cannot be written.
        """
        self.input.unlink(missing_ok=True)
        os.link(uploaded, self.input)

    def clear(self) -> None:
        """Delete all files of the batch, except its output file and its error file."""
        for path in self._folder.glob(f"{self._batch_id}.*"):
            path.unlink(missing_ok=True)


class PartWriter:
    """Writer of the outputs of one gateway. Call `close` at the end."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        self._file: IO[bytes] | None = None
        self._lock = asyncio.Lock()

    async def append(self, data: bytes) -> int:
        """Append *data*, and return its position.

        Raises:
            FilesUnavailable: if the disk is full or the folder cannot be written.
        """
        async with self._lock:
            return await asyncio.to_thread(self._append, data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _append(self, data: bytes) -> int:
        try:
            if self._file is None:
                self._file = self._path.open("ab")
            start = self._file.seek(0, os.SEEK_END)
            self._file.write(data)
            self._file.flush()
        except OSError as fault:
            text = f"The folder of files cannot be used: {fault.strerror}"
            raise FilesUnavailable(text, retry_after_s=5) from None
        return start


@dataclass(frozen=True, slots=True)
class Written:
    """Size and number of lines of the two files of a batch."""

    output_bytes: int
    output_lines: int
    error_bytes: int
    error_lines: int


def usage_of(results: Iterable[LineResult]) -> BatchUsage:
    """Return the tokens of all *results* together."""
    tokens = [(r.prompt_tokens, r.cached_tokens, r.completion_tokens, r.reasoning_tokens) for r in results]
    return BatchUsage(*map(sum, zip(*tokens, strict=True))) if tokens else BatchUsage()


def write_files(
    batch_id: str,
    folder: BatchFolder,
    results: Mapping[int, LineResult],
    *,
    output: Path,
    errors: Path,
    missing: tuple[str, str],
) -> Written:
    """Write the output file and the error file of a batch, in the order of the input file.

    *missing* is the code and the message for lines without a result. A file without lines is not written.

    Raises:
        OSError: if a file cannot be read or written.
    """
    with folder.plan.open("rb") as plan_file:
        lines = list(enumerate(planned_lines(plan_file)))
    lines.sort(key=lambda each: each[1].number)
    with _Sink(output) as output_sink, _Sink(errors) as error_sink, _Parts(folder) as parts:
        for place, line in lines:
            result = results.get(place)
            if result is None:
                error_sink.write(parts.missing(batch_id, place, line, missing))
            else:
                (output_sink if result.ok else error_sink).write(parts.read(result))
    return Written(output_sink.size, output_sink.lines, error_sink.size, error_sink.lines)


class _Sink:
    """File that becomes visible when it is complete, if it has any line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Should two gateways write the same file, each writes its own, with equal contents.
        self._partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        self._file: IO[bytes] | None = None
        self.size = 0
        self.lines = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._file is None:
            return
        if kind is None:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()
        if kind is None:
            self._partial.replace(self._path)

    def write(self, data: bytes) -> None:
        if self._file is None:
            self._file = self._partial.open("wb")
        self._file.write(data)
        self.size += len(data)
        self.lines += 1


class _Parts:
    """Reader of the outputs of lines, and of the input file."""

    def __init__(self, folder: BatchFolder) -> None:
        self._folder = folder
        self._files: dict[str, IO[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def read(self, result: LineResult) -> bytes:
        file = self._opened(self._folder.plan.with_name(result.part))
        file.seek(result.start)
        return file.read(result.length)

    def missing(self, batch_id: str, place: int, line: PlannedLine, reason: tuple[str, str]) -> bytes:
        custom_id = read_line(self._opened(self._folder.input), line).custom_id
        return error_of(*reason, custom_id=custom_id, request_id=request_id_of(batch_id, place))

    def _opened(self, path: Path) -> IO[bytes]:
        file = self._files.get(path.name)
        if file is None:
            file = self._files[path.name] = path.open("rb")
        return file


def request_id_of(batch_id: str, place: int) -> str:
    """Return the request id of the line at *place* in the order of the batch. It begins with the id of the batch."""
    return f"{batch_id}-{place}"
