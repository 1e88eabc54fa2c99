"""Cross-origin requests of web pages (the Fetch standard's CORS protocol), for the origins that the settings name.

1. A preflight is answered before anybody is asked for a key: browsers send none with it.
2. Every answer to an allowed origin says so, errors and streams as well, or the page could not read them.
3. Credentials of the browser are not allowed: keys come in `authorization`, which a page sets itself.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, Final

from gateway.errors import Forbidden
from gateway.headers import fields
from gateway.server.asgi import App, Message, Receive, Send

ANY_ORIGIN: Final = "*"
METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
MAX_AGE_S: Final = 600
"""For which a browser need not ask again; no browser keeps it for longer than 7,200 s."""

_EXPOSED: Final = (b"x-warmgate-", b"x-ratelimit-")
_EXPOSED_TOO: Final = frozenset({b"x-request-id", b"request-id", b"retry-after", b"retry-after-ms", b"x-should-retry"})
_TOKENS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~, ")
_LONGEST_LIST: Final = 4096


class Cors:
    """*app*, for pages of *origins* as well; ``*`` is every origin."""

    def __init__(self, app: App, origins: Sequence[str]) -> None:
        self._app = app
        self._allows_any = ANY_ORIGIN in origins
        self._origins = frozenset(origin.encode("ascii") for origin in origins)

    def __call__(self, scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Serve one HTTP request."""
        said = fields(scope["headers"])
        origin = said.get(b"origin")
        if origin is not None and scope["method"] == "OPTIONS" and b"access-control-request-method" in said:
            return self._preflight(origin, said, send)
        return self._app(scope, receive, self._telling(origin, send))

    def _allowed(self, origin: bytes | None) -> bytes | None:
        """What to answer as the allowed origin; None: nothing."""
        if self._allows_any:
            return b"*"
        return origin if origin in self._origins else None

    def _telling(self, origin: bytes | None, send: Send) -> Send:
        allowed = None if origin is None else self._allowed(origin)
        varies = not self._allows_any

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ())]
                if allowed is not None:
                    headers.append((b"access-control-allow-origin", allowed))
                    headers.append((b"access-control-expose-headers", _exposed(headers)))
                if varies:
                    headers.append((b"vary", b"Origin"))
                message["headers"] = headers
            await send(message)

        return telling

    async def _preflight(self, origin: bytes, said: dict[bytes, bytes], send: Send) -> None:
        vary = (b"vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
        allowed = self._allowed(origin)
        if allowed is None:
            text = f"Pages of {origin[:100].decode('ascii', 'replace')!r} may not ask: allow it in server.cors_origins"
            fault = Forbidden(text, code="origin_not_allowed")
            await _answer(send, fault.status, [vary, (b"content-type", b"application/json")], fault.to_body())
            return
        wanted = said.get(b"access-control-request-headers", b"")
        is_list = len(wanted) <= _LONGEST_LIST and _TOKENS.issuperset(wanted)
        headers = [
            (b"access-control-allow-origin", allowed),
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", wanted if wanted and is_list else b"authorization, content-type"),
            (b"access-control-max-age", b"%d" % MAX_AGE_S),
            vary,
        ]
        if said.get(b"access-control-request-private-network") == b"true" and not self._allows_any:
            headers.append((b"access-control-allow-private-network", b"true"))
        await _answer(send, 204, headers, b"")


def _exposed(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Those of *headers* that a page may read, beside those that it always may."""
    names = [name for name, _ in headers if name.startswith(_EXPOSED) or name in _EXPOSED_TOO]
    return b", ".join(sorted({*names, b"x-request-id"}))


async def _answer(send: Send, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
    length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})
