"""HTTP request and the methods to answer it, based on plain ASGI."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import msgspec

from simulator.connection import Connection
from simulator.errors import ApiError, Dialect, error_shape, event_error_shape

Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]


class ClientGone(Exception):
    """Error: the client closed its connection before the end of the answer."""


Handler: TypeAlias = Callable[["HttpExchange"], Awaitable[None]]
"""Function that answers one request. It raises `ApiError` or `ClientGone` only before the answer has begun."""


def require_json(content_type: str) -> None:
    """Raise vLLM's 400 error if the media type of a request is not JSON."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise ApiError(400, "Unsupported Media Type: Only 'application/json' is allowed")


class HttpExchange:
    """HTTP request and its answer. *dialect* determines the format of errors."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, dialect: Dialect = "vllm") -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.named_in_path = ""
        """Part of the request path that matches ``{id}`` in the route."""
        self.has_begun = False
        """Whether the status and headers of the answer have been sent."""
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.connection: Connection = scope["state"]["connection"]
        self._query: bytes = scope.get("query_string", b"")
        self._dialect = dialect
        self._receive = receive
        self._send = send
        self._body: bytes | None = None

    def header(self, name: bytes) -> str | None:
        """Return the first value of a request header, or None. *name* must be lower case."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), None)

    async def body(self) -> bytes:
        """Return the whole request body. Raises `ClientGone` if the client disconnects."""
        if self._body is None:
            parts = []
            more = True
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                parts.append(message["body"])
                more = message["more_body"]
            self._body = b"".join(parts)
        return self._body

    @property
    def content_type(self) -> str:
        return self.header(b"content-type") or ""

    def query(self, name: str) -> str | None:
        """Return the last value of a query parameter, or None if the parameter is missing."""
        return parse_qs(self._query.decode("latin-1")).get(name, [None])[-1]

    def require_json(self) -> None:
        """Raise `ApiError` if the media type of the request is not JSON."""
        require_json(self.content_type)

    def event_error(self, error: ApiError) -> dict[str, Any]:
        """Return *error* as JSON in the format for streams."""
        return event_error_shape(self._dialect, self.path)(error)

    async def reply_json(self, value: Any) -> None:
        await self.reply(200, msgspec.json.encode(value), b"application/json")

    async def reply_error(self, error: ApiError) -> None:
        body = msgspec.json.encode(error_shape(self._dialect, self.path)(error))
        await self.reply(error.status, body, b"application/json")

    async def reply(self, status: int, body: bytes, content_type: bytes) -> None:
        headers = [(b"content-length", str(len(body)).encode())]
        if body:
            headers.append((b"content-type", content_type))
        self.has_begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def start_stream(self) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        self.has_begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end_stream(self, body: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": False})
