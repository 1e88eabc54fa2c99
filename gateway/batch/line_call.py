"""Call of one line of a batch: an HTTP request that the gateway sends to itself, without a socket.

The request passes through all phases of a request, with the same limits, guardrails and metrics. Its request id begins
with the id of the batch. The caller of `answered` writes its ledger entry, together with the result of the line.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from cache_index import WorkerId
from gateway.batch.contents import Piece
from gateway.batch.line_store import LineResult
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import DECODE_ERRORS
from gateway.protocol.interruption import Interruption
from gateway.tenancy.ledger.entry import Entry

App = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]

MAX_ANSWER_BYTES: Final = 64 * 2**20
"""Maximum size of the answer to one line. A larger one is replaced by an error."""
OK: Final = 200
_SPENT: Final = "insufficient_quota"


@dataclass(frozen=True, slots=True)
class LineAnswer:
    """Answer to one line."""

    status: int
    body: bytes
    retry_after_s: float | None
    entry: Entry | None = None
    """Ledger entry of the request, which is not written yet, or None if the request has none."""
    is_complete: bool = True
    """Whether the end of the answer was received."""

    @property
    def is_transient(self) -> bool:
        """Whether the line has to wait, because a limit is reached or the gateway or its workers cannot answer now."""
        return self.status == 503 or (self.status == 429 and _code(self.body) != _SPENT)

    @property
    def is_fault(self) -> bool:
        """Whether a worker failed, so that the line is tried a few times again."""
        return self.status in {500, 502, 504}


async def answered(
    app: App,
    endpoint: str,
    body: bytes,
    *,
    secret: str,
    request_id: str,
    worker: WorkerId | None = None,
    interruption: Interruption | None = None,
) -> LineAnswer:
    """Send *body* to *endpoint* of *app*, with *secret* as the API key, and return the answer.

    If *worker* is given, only this worker may answer. *interruption* can then interrupt the line, whose answer may be
    incomplete.
    """
    exchange = _Exchange(body)
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": endpoint,
        "raw_path": endpoint.encode(),
        "query_string": b"",
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"authorization", f"Bearer {secret}".encode()),
            (b"x-request-id", request_id.encode()),
        ],
        "client": None,
        "workers": None if worker is None else frozenset((worker,)),
        "interruption": interruption,
        "entries": exchange.entries,
    }
    await app(scope, exchange.receive, exchange.send)
    return exchange.answer


def output_of(answer: LineAnswer, *, custom_id: str, request_id: str) -> bytes:
    """Return the line of the output file for *answer*, with a line end."""
    try:
        body: Any = msgspec.Raw(msgspec.json.format(answer.body, indent=-1))  # without line ends
    except DECODE_ERRORS:
        body = answer.body.decode("utf-8", "replace")
    response = {"status_code": answer.status, "request_id": request_id, "body": body}
    return _line(request_id, custom_id, response, None)


def error_of(code: str, message: str, *, custom_id: str, request_id: str) -> bytes:
    """Return the line of the error file for a line that was not answered, with a line end."""
    return _line(request_id, custom_id, None, {"code": code, "message": message})


def result_of(answer: LineAnswer, endpoint: str, piece: Piece, *, length: int) -> LineResult:
    """Return the result of a line whose output is at *piece*."""
    ok = answer.status == OK
    usage = ENDPOINTS[endpoint].usage_of(answer.body) if ok else None
    if usage is None:
        return LineResult(*piece, length, ok)
    tokens = (usage.prompt_tokens, usage.cached_tokens or 0, usage.completion_tokens)
    return LineResult(*piece, length, ok, *tokens, _reasoning_tokens(answer.body))


class _Exchange:
    """ASGI functions of one call, which collect the answer."""

    def __init__(self, body: bytes) -> None:
        self.entries: list[Entry] = []
        self._body: bytes | None = body
        self._status = 500
        self._retry_after_s: float | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_complete = False

    @property
    def answer(self) -> LineAnswer:
        entry = self.entries[-1] if self.entries else None
        if self._size > MAX_ANSWER_BYTES:
            text = f"The answer has more than {MAX_ANSWER_BYTES} bytes"
            error = {"message": text, "type": "server_error", "param": None, "code": "answer_too_large"}
            return LineAnswer(507, msgspec.json.encode({"error": error}), None, entry)
        return LineAnswer(
            self._status, b"".join(self._pieces), self._retry_after_s, entry, is_complete=self._is_complete
        )

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body is None:
            await asyncio.Event().wait()  # the caller never disconnects
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = dict(message["headers"])
            text = headers.get(b"retry-after", b"")
            self._retry_after_s = float(text) if text.isdigit() and len(text) < 8 else None
            return
        self._is_complete = not message.get("more_body", False)
        self._size += len(message["body"])
        if self._size <= MAX_ANSWER_BYTES:
            self._pieces.append(message["body"])


def _line(request_id: str, custom_id: str, response: Any, error: Any) -> bytes:
    line = {"id": f"batch_req_{request_id.removeprefix('batch_')}", "custom_id": custom_id}
    return msgspec.json.encode({**line, "response": response, "error": error}) + b"\n"


def _code(body: bytes) -> Any:
    try:
        error = msgspec.json.decode(body)["error"]
        return error["code"]
    except (*DECODE_ERRORS, LookupError, TypeError):
        return None


def _reasoning_tokens(body: bytes) -> int:
    try:
        usage = msgspec.json.decode(body)["usage"]
        details = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
        tokens = details["reasoning_tokens"]
    except (*DECODE_ERRORS, LookupError, TypeError, AttributeError):
        return 0
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else 0
