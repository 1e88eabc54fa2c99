"""Cross-origin resource sharing (CORS), which allows requests from web pages of the configured origins.

1. A preflight request needs no API key, because browsers do not send one with it.
2. Every answer to an allowed origin has CORS headers, including errors and streams. The browser would otherwise hide
   the answer from the page.
3. Browser credentials such as cookies are not allowed. The web page sets its API key in the `authorization` header.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, Final

from gateway.protocol.errors import Forbidden
from gateway.protocol.headers import fields
from gateway.server.asgi import App, Message, Receive, Send

ANY_ORIGIN: Final = "*"
METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
MAX_AGE_S: Final = 600
"""Seconds for which browsers can cache the answer to a preflight request. No browser exceeds 7,200 s."""

_EXPOSED_PREFIXES: Final = (b"x-warmgate-", b"x-ratelimit-")
_EXPOSED_NAMES: Final = frozenset(
    {b"x-request-id", b"request-id", b"retry-after", b"retry-after-ms", b"x-should-retry"}
)
_TOKENS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~, ")
_MAX_LIST_BYTES: Final = 4096


class Cors:
    """ASGI middleware that allows requests from web pages of *origins*. The origin `*` stands for all web pages."""

    def __init__(self, app: App, origins: Sequence[str]) -> None:
        self._app = app
        self._allows_any = ANY_ORIGIN in origins
        self._origins = frozenset(origin.encode("ascii") for origin in origins)

    def __call__(self, scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Serve an HTTP request and add CORS headers to the answer."""
        headers = fields(scope["headers"])
        origin = headers.get(b"origin")
        if origin is not None and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            return self._preflight(origin, headers, send)
        return self._app(scope, receive, self._with_cors_headers(origin, send))

    def _allowed(self, origin: bytes | None) -> bytes | None:
        """Return the value of the header that allows *origin*, or None if *origin* is not allowed."""
        if self._allows_any:
            return b"*"
        return origin if origin in self._origins else None

    def _with_cors_headers(self, origin: bytes | None, send: Send) -> Send:
        allowed = None if origin is None else self._allowed(origin)
        varies = not self._allows_any

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ())]
                if allowed is not None:
                    headers.append((b"access-control-allow-origin", allowed))
                    headers.append((b"access-control-expose-headers", _exposed(headers)))
                if varies:
                    headers.append((b"vary", b"Origin"))
                message["headers"] = headers
            await send(message)

        return send_with_headers

    async def _preflight(self, origin: bytes, headers: dict[bytes, bytes], send: Send) -> None:
        vary = (b"vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
        allowed = self._allowed(origin)
        if allowed is None:
            text = (
                f"The origin {origin[:100].decode('ascii', 'replace')!r} is not allowed. Add it to server.cors_origins"
            )
            fault = Forbidden(text, code="origin_not_allowed")
            await _send_answer(send, fault.status, [vary, (b"content-type", b"application/json")], fault.to_body())
            return
        wanted = headers.get(b"access-control-request-headers", b"")
        is_list = len(wanted) <= _MAX_LIST_BYTES and _TOKENS.issuperset(wanted)
        answer = [
            (b"access-control-allow-origin", allowed),
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", wanted if wanted and is_list else b"authorization, content-type"),
            (b"access-control-max-age", b"%d" % MAX_AGE_S),
            vary,
        ]
        if headers.get(b"access-control-request-private-network") == b"true" and not self._allows_any:
            answer.append((b"access-control-allow-private-network", b"true"))
        await _send_answer(send, 204, answer, b"")


def _exposed(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the names of those response headers in *headers* that a web page can read only with permission."""
    names = [name for name, _ in headers if name.startswith(_EXPOSED_PREFIXES) or name in _EXPOSED_NAMES]
    return b", ".join(sorted({*names, b"x-request-id"}))


async def _send_answer(send: Send, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
    length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})
