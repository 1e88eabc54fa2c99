"""Validation of the input file of a batch, and the order in which to run its lines, in one pass over the file.

The hashes by which lines are sorted take 1/32 of the size of the file in memory; see `gateway.batch.order`.
"""

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import IO, Final

import msgspec

from gateway.batch.order import run_order, sort_key
from gateway.protocol.body import Body
from gateway.protocol.endpoints.endpoint import JSON
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import DECODE_ERRORS, ClientError

SERVED: Final = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
"""Endpoints that the lines of a batch can call."""
MAX_ERRORS: Final = 100
"""Maximum number of errors that the validation of a file reports."""
MAX_MODELS: Final = 100
"""Maximum number of models in one file."""
MAX_CUSTOM_ID: Final = 512
_PIECE: Final = 2**20
"""Bytes of a too long line to skip at once."""
_MOST: Final = 2**32 - 1
_ENTRY: Final = struct.Struct("<IQIII")
ENTRY_BYTES: Final = _ENTRY.size
"""Bytes of a line in a plan."""


class PlanJob(msgspec.Struct, frozen=True):
    """File to validate, and limits of it."""

    input: str
    """Path of the file."""
    endpoint: str
    max_lines: int
    max_line_bytes: int


class LineFault(msgspec.Struct, frozen=True):
    """Fault of a line, in the form of OpenAI's API."""

    code: str
    message: str
    param: str | None
    line: int | None
    """Number of the line, from 1, or None if the fault concerns the file."""


class Planned(msgspec.Struct, frozen=True):
    """Result of a validation."""

    total: int
    faults: list[LineFault]
    models: dict[str, int]
    """Number of the first line that names the model, by model."""
    prompt_bytes: dict[str, int] = {}
    """Length of all prompts for a model, by model."""


class FileLine(msgspec.Struct, frozen=True):
    """Place of a line in the input file."""

    number: int
    """Number of the line, from 1."""
    start: int
    length: int


class PlannedLine(msgspec.Struct, frozen=True):
    """Place of a line in the input file, and the size of its prompt."""

    number: int
    """Number of the line, from 1."""
    start: int
    length: int
    prompt_bytes: int
    """Length of the prompt."""
    step_bytes: int
    """Length of the part of the prompt that is not in the cache of a worker that ran the lines before."""


class BatchLine(msgspec.Struct):
    """Line of the input file, with OpenAI's fields."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


_decode_line = msgspec.json.Decoder(BatchLine).decode


class _LineRefused(Exception):
    """Raised if a line is not valid."""

    def __init__(self, code: str, message: str, param: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


def plan(job: PlanJob) -> tuple[Planned, list[PlannedLine]]:
    """Validate the file of *job*. Return the result, and the lines in the order in which to run them, if it is valid.

    Raises:
        OSError: if the file cannot be read.
    """
    planning = _Planning(job)
    with Path(job.input).open("rb") as file:
        for line, data in _lines(file, job.max_line_bytes):
            if not planning.add(line, data):
                break
    planning.end()
    found = Planned(planning.total, planning.faults, planning.models, planning.prompt_bytes)
    return found, [] if planning.faults else planning.in_order()


def packed(lines: Iterable[PlannedLine]) -> bytes:
    """Return *lines* in the form for the plan, with `ENTRY_BYTES` for each line."""
    return b"".join(_ENTRY.pack(*msgspec.structs.astuple(line)) for line in lines)


def planned_lines(data: bytes) -> list[PlannedLine]:
    """Return the lines in a piece of a plan."""
    return [PlannedLine(*entry) for entry in _ENTRY.iter_unpack(data)]


def read_line(data: bytes) -> BatchLine:
    """Return a line of an input file that was validated."""
    return _decode_line(data)


class _Planning:
    """State of the pass over one file."""

    def __init__(self, job: PlanJob) -> None:
        self._job = job
        self._endpoint = ENDPOINTS[job.endpoint]
        self._keys: list[tuple[bytes, int, FileLine]] = []
        """Sort key, length of the prompt and place in the file of each line."""
        self._custom_ids: set[bytes] = set()
        self.faults: list[LineFault] = []
        self.models: dict[str, int] = {}
        self.total = 0
        self.prompt_bytes: dict[str, int] = {}

    def add(self, line: FileLine, data: bytes | None) -> bool:
        """Validate one line, of which *data* is None if it is too long. Return whether to continue."""
        if data is not None and not data.strip():
            return True
        self.total += 1
        if self.total > self._job.max_lines:
            text = f"The file has more than {self._job.max_lines} lines, which is the limit (files.max_lines)"
            self.faults.append(LineFault("too_many_lines", text, None, line.number))
            return False
        try:
            body = self._valid(line, data)
            self._keys.append((sort_key(body.model, body.prompt), len(body.prompt), line))
        except _LineRefused as fault:
            self.faults.append(LineFault(fault.code, str(fault), fault.param, line.number))
        return len(self.faults) < MAX_ERRORS

    def end(self) -> None:
        if self.total == 0:
            self.faults.append(LineFault("empty_file", "The file has no lines", "input_file_id", None))

    def in_order(self) -> list[PlannedLine]:
        """Return all lines in the order in which to run them."""
        found = []
        for each in run_order([key for key, _, _ in self._keys], [size for _, size, _ in self._keys]):
            _, size, line = self._keys[each.index]
            step = min(each.step_bytes, _MOST)
            found.append(PlannedLine(line.number, line.start, line.length, min(size, _MOST), step))
        return found

    def _valid(self, line: FileLine, data: bytes | None) -> Body:
        """Return the body of a line.

        Raises:
            _LineRefused: if the line is not valid.
        """
        if data is None:
            text = (
                f"The line has more than {self._job.max_line_bytes} bytes, which is the limit (server.max_body_bytes)"
            )
            raise _LineRefused("line_too_long", text, None)
        try:
            read = _decode_line(data)
        except DECODE_ERRORS as fault:
            text = f"The line is not a JSON object with custom_id, method, url and body: {fault}"
            raise _LineRefused("invalid_json_line", text, None) from None
        self._check(read)
        body = self._body(read)
        if len(self.models) == MAX_MODELS and body.model not in self.models:
            raise _LineRefused("too_many_models", f"The file names more than {MAX_MODELS} models", "body.model")
        self.prompt_bytes[body.model] = self.prompt_bytes.get(body.model, 0) + body.prompt_bytes
        self.models.setdefault(body.model, line.number)
        return body

    def _check(self, read: BatchLine) -> None:
        if not 1 <= len(read.custom_id) <= MAX_CUSTOM_ID:
            text = f"'custom_id' must have 1 to {MAX_CUSTOM_ID} characters"
            raise _LineRefused("invalid_custom_id", text, "custom_id")
        digest = blake2b(read.custom_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest in self._custom_ids:
            raise _LineRefused("duplicate_custom_id", "An earlier line has the same 'custom_id'", "custom_id")
        self._custom_ids.add(digest)
        if read.method != "POST":
            raise _LineRefused("invalid_method", "'method' must be 'POST'", "method")
        if read.url != self._job.endpoint:
            text = f"'url' must be {self._job.endpoint!r}, the endpoint of the batch"
            raise _LineRefused("mismatched_endpoint", text, "url")

    def _body(self, read: BatchLine) -> Body:
        try:
            body = self._endpoint.parse(bytes(read.body), JSON)
        except ClientError as fault:
            param = "body" if fault.param is None else f"body.{fault.param}"
            raise _LineRefused("invalid_request", fault.message, param) from None
        for field, is_set in (("stream", body.streams), ("background", body.background)):
            if is_set:
                raise _LineRefused("invalid_request", f"'{field}' is not allowed in a batch", f"body.{field}")
        if not body.model:
            raise _LineRefused("invalid_request", "The field 'model' is missing", "body.model")
        return body


def _lines(file: IO[bytes], max_bytes: int) -> Iterator[tuple[FileLine, bytes | None]]:
    """Yield the lines of *file*. The bytes of a line with more than *max_bytes* bytes are None."""
    start, number = 0, 0
    while data := file.readline(max_bytes + 1):
        number += 1
        length = len(data)
        rest = b"" if data.endswith(b"\n") else file.readline(_PIECE)
        is_too_long = bool(rest.strip())
        while rest:
            length += len(rest)
            rest = b"" if rest.endswith(b"\n") else file.readline(_PIECE)
        yield FileLine(number, start, min(length, _MOST)), None if is_too_long else data
        start += length
