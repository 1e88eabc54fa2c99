"""The output file and the error file of a batch, which are made of the outputs of its lines.

Each gateway appends the outputs of its lines to contents of its own, and then stores where they are. An output that was
appended but not stored, because the gateway was killed, is never read. At the end, one gateway copies the outputs in
the order of the input file.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.batch.batch import BatchUsage
from gateway.batch.batch_files import BatchFiles
from gateway.batch.contents import ContentWriter, LocalContent
from gateway.batch.line_call import error_of
from gateway.batch.line_store import LineResult
from gateway.batch.plan import PlannedLine, planned_lines, read_line
from gateway.protocol.errors import FilesUnavailable

BLOCK_BYTES: Final = 2**20
"""Bytes to collect before they are written."""


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


async def write_files(
    batch_id: str,
    files: BatchFiles,
    results: Mapping[int, LineResult],
    *,
    total: int,
    output: str,
    errors: str,
    missing: tuple[str, str],
) -> Written:
    """Write the output file and the error file of a batch with *total* lines, in the order of the input file.

    *output* and *errors* are the names of the contents. *missing* is the code and the message for lines without a
    result. A file without lines is not written.

    Raises:
        FilesUnavailable: if a content cannot be read or written.
    """
    names = [files.plan, *sorted({result.part for result in results.values()})]
    if len(results) < total:
        names.append(files.input)
    output_sink, error_sink = (_Sink(files.contents.writer(name)) for name in (output, errors))
    try:
        async with files.contents.local(names) as found:
            blocks = _blocks(_Outputs(batch_id, found, files, missing), results)
            while (block := await asyncio.to_thread(next, blocks, None)) is not None:
                await output_sink.write(block.outputs)
                await error_sink.write(block.errors)
        await output_sink.keep()
        await error_sink.keep()
    finally:
        await output_sink.discard()
        await error_sink.discard()
    return Written(output_sink.size, output_sink.lines, error_sink.size, error_sink.lines)


class _Sink:
    """Content that is written if it has any line."""

    def __init__(self, writer: ContentWriter) -> None:
        # Should two gateways write the same file, each writes its own, with equal contents.
        self._writer = writer
        self.size = 0
        self.lines = 0

    async def write(self, lines: list[bytes]) -> None:
        if lines:
            data = b"".join(lines)
            await self._writer.write(data)
            self.size += len(data)
            self.lines += len(lines)

    async def keep(self) -> None:
        if self.lines:
            await self._writer.keep()

    async def discard(self) -> None:
        await self._writer.discard()


class _Outputs:
    """Reader of the outputs of lines, and of the input file."""

    def __init__(
        self, batch_id: str, contents: Mapping[str, LocalContent], files: BatchFiles, missing: tuple[str, str]
    ) -> None:
        self._batch_id = batch_id
        self._contents = contents
        self._files = files
        self._missing = missing

    def lines(self) -> list[tuple[int, PlannedLine]]:
        """Return all lines with their places in the plan, in the order of the input file."""
        plan = self._contents[self._files.plan]
        lines = list(enumerate(planned_lines(plan.read(0, plan.size))))
        return sorted(lines, key=lambda each: each[1].number)

    def read(self, result: LineResult) -> bytes:
        data = self._contents[result.part].read(result.start, result.length)
        if len(data) < result.length:
            raise FilesUnavailable(f"The content {result.part} is shorter than it was when it was written")
        return data

    def missing(self, place: int, line: PlannedLine) -> bytes:
        """Return the output for a line without a result."""
        custom_id = read_line(self._contents[self._files.input].read(line.start, line.length)).custom_id
        return error_of(*self._missing, custom_id=custom_id, request_id=request_id_of(self._batch_id, place))


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines for both files."""

    outputs: list[bytes]
    errors: list[bytes]


def _blocks(outputs: _Outputs, results: Mapping[int, LineResult]) -> Iterator[_Block]:
    """Yield the lines of both files in blocks. This reads files, so it runs in a thread."""
    block, size = _Block([], []), 0
    for place, line in outputs.lines():
        result = results.get(place)
        data = outputs.missing(place, line) if result is None else outputs.read(result)
        (block.outputs if result is not None and result.ok else block.errors).append(data)
        size += len(data)
        if size >= BLOCK_BYTES:
            yield block
            block, size = _Block([], []), 0
    yield block


def request_id_of(batch_id: str, place: int) -> str:
    """Return the request id of the line at *place* in the order of the batch. It begins with the id of the batch."""
    return f"{batch_id}-{place}"
