"""One HTTP request with the means to answer it, over plain ASGI."""

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
    """The client closed its connection before it was answered."""


Handler: TypeAlias = Callable[["HttpExchange"], Awaitable[None]]
"""Answers one request; raises `ApiError` or `ClientGone` before the answer has begun."""


def require_json(content_type: str) -> None:
    """Raise the 400 that vLLM has for another media type."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise ApiError(400, "Unsupported Media Type: Only 'application/json' is allowed")


class HttpExchange:
    """*dialect* decides the shape of errors."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, dialect: Dialect = "vllm") -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.named_in_path = ""
        """The part of the path that stands for its route's ``{id}``."""
        self.has_begun = False
        """The head of an answer is out."""
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.connection: Connection = scope["state"]["connection"]
        self._query: bytes = scope.get("query_string", b"")
        self._dialect = dialect
        self._receive = receive
        self._send = send
        self._body: bytes | None = None

    def header(self, name: bytes) -> str | None:
        """The first value of a header, its *name* in lower case."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), None)

    async def body(self) -> bytes:
        """The whole body. Raises `ClientGone`."""
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
        """The last value of a query parameter."""
        return parse_qs(self._query.decode("latin-1")).get(name, [None])[-1]

    def require_json(self) -> None:
        """Raises `ApiError` for another media type."""
        require_json(self.content_type)

    def event_error(self, error: ApiError) -> dict[str, Any]:
        """The JSON of *error* in the midst of a stream."""
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
