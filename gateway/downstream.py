"""The caller's side of an exchange: status and headers once, then bytes, over ASGI."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gateway.backends.backend import Headers
from gateway.errors import GatewayError, MethodNotAllowed
from gateway.exchange import Exchange
from gateway.sse import error_event

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Downstream:
    """Sends one response, and says in it what was decided."""

    def __init__(self, send: Send, exchange: Exchange) -> None:
        self._send = send
        self._exchange = exchange
        self.started = False
        """Status and headers are out: whatever fails from here on can only be told in the body."""

    async def start(self, status: int, headers: Headers) -> None:
        self.started = True
        self._exchange.status = status
        await self._send(
            {"type": "http.response.start", "status": status, "headers": headers + _said_of(self._exchange)}
        )

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Waits while the caller reads more slowly than the worker writes."""
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole response."""
        await self.start(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self.write(body, last=True)

    async def fail(self, error: GatewayError) -> None:
        """Tell the caller of *error* where it still can be: as the response, or as the last event of the stream."""
        if self.started:
            await self.write(error_event(error), last=True)
            return
        headers = [(b"content-type", b"application/json")]
        if error.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(error.retry_after_s))))
        if isinstance(error, MethodNotAllowed):
            headers.append((b"allow", b"POST"))
        await self.answer(error.status, headers, error.to_body())


def _said_of(exchange: Exchange) -> Headers:
    headers = [(b"x-request-id", exchange.request_id)]
    if exchange.backend is not None and exchange.strategy is not None:
        headers += [
            (b"x-warmgate-worker", exchange.backend.encode("ascii", "replace")),
            (b"x-warmgate-strategy", exchange.strategy.encode("ascii")),
            (b"x-warmgate-hit-blocks", b"%d" % exchange.hit_blocks),
        ]
    return headers
