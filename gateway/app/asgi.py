"""The outermost ASGI callable: who serves which request.

A path is made canonical before anything is decided by it, and every server behind sees that one: what is known of a
path, who may ask for it and how it is counted cannot differ by its spelling.
"""

import secrets
from collections.abc import Coroutine, Sequence
from typing import Any

from gateway.protocol.canonical_path import canonical, raw
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.headers import fields, request_id_of
from gateway.proxy.proxy import Proxy
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.compression import Compression
from gateway.server.cors import Cors


class Gateway:
    """Completions go to the proxy before FastAPI's router sees them."""

    def __init__(
        self,
        api: App,
        proxy: Proxy,
        *,
        admin: App,
        admin_prefix: str,
        is_admin_apart: bool,
        probes: App,
        cors_origins: Sequence[str] = (),
        compress_min_bytes: int | None = None,
    ) -> None:
        """*admin* is served under *admin_prefix*, unless it *is_admin_apart*: then its port serves it."""
        self._api = api
        self._proxy = proxy
        self._admin = admin
        self._admin_prefix = admin_prefix
        self._around: App | None = None
        if compress_min_bytes is not None:
            self._around = Compression(self._serve, compress_min_bytes)
        if cors_origins:
            self._around = Cors(self._around or self._serve, cors_origins)
        self.admin: App | None = _named(admin) if is_admin_apart else None
        """Application for a separate port."""
        self.probes = _named(probes)
        """The same, where ``server.probes_port`` wants it; *api* serves them too."""

    def __call__(self, scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """ASGI application without a coroutine of its own, because every request passes through it."""
        if scope["type"] != "http":
            return self._api(scope, receive, send)
        if self._around is not None:
            return self._around(scope, receive, send)
        return self._serve(scope, receive, send)

    def _serve(self, scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        if self._proxy.serves(scope["path"]):
            return self._proxied(scope, receive, send)
        path = canonical(scope["path"], ENDPOINTS)
        if path != scope["path"]:
            scope = {**scope, "path": path, "raw_path": raw(path)}
            if self._proxy.serves(path):
                return self._proxied(scope, receive, send)
        if self.admin is None and path.startswith(self._admin_prefix):
            return self._admin(*_naming_request(scope, receive, send))
        return self._api(*_naming_request(scope, receive, send))

    def _proxied(self, scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        if scope["method"] == "OPTIONS":
            return _allow_post(*_naming_request(scope, receive, send))
        return self._proxy(scope, receive, send)


async def _allow_post(_scope: Message, _receive: Receive, send: Send) -> None:
    """Describe the methods of a path that workers answer; no key is needed."""
    await send({"type": "http.response.start", "status": 204, "headers": [(b"allow", b"POST, OPTIONS")]})
    await send({"type": "http.response.body", "body": b""})


def _named(app: App) -> App:
    """Return *app* for a separate port, with a request id in requests and responses, as on this one."""

    def naming(scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        return app(*_naming_request(scope, receive, send))

    return naming


def _naming_request(scope: Message, receive: Receive, send: Send) -> tuple[Message, Receive, Send]:
    """The same with the caller's request id, or one made here, in request and response; HEAD asks as GET does, and
    the server leaves the body out.
    """
    request_id = request_id_of(fields(scope["headers"])) or secrets.token_hex(16).encode()
    named = {**scope, "headers": [(b"x-request-id", request_id), *scope["headers"]]}
    if scope["method"] == "HEAD":
        named["method"] = "GET"

    async def naming(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
        await send(message)

    return named, receive, naming
