"""Outermost ASGI application, which selects the application that serves each request.

The request path is converted to its canonical form first, and all inner applications see only that form. Different
spellings of a path therefore cannot bypass access checks or metrics.
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
    """ASGI application that passes completion requests directly to the proxy, without FastAPI's router."""

    def __init__(
        self,
        api: App,
        proxy: Proxy,
        *,
        admin: App,
        admin_prefix: str,
        is_admin_apart: bool,
        probes: App,
        console: App | None = None,
        console_prefix: str = "/console",
        scim: App | None = None,
        scim_prefix: str = "/scim/v2",
        cors_origins: Sequence[str] = (),
        compress_min_bytes: int | None = None,
    ) -> None:
        """Serve *admin* under *admin_prefix*, or only on a separate port if *is_admin_apart* is true.

        The same port serves *console* under *console_prefix*. The main port serves *scim* under *scim_prefix*.
        """
        self._api = api
        self._proxy = proxy
        self._admin = admin
        self._admin_prefix = admin_prefix
        self._console = None if is_admin_apart else console
        self._console_prefix = console_prefix
        self._scim = scim
        self._scim_prefix = scim_prefix
        self._around: App | None = None
        if compress_min_bytes is not None:
            self._around = Compression(self._serve, compress_min_bytes)
        if cors_origins:
            self._around = Cors(self._around or self._serve, cors_origins)
        apart = admin if console is None else _either(console, console_prefix, admin)
        self.admin: App | None = _named(apart) if is_admin_apart else None
        """Application for the separate admin port with the admin API and the console, or None without such a port."""
        self.probes = _named(probes)
        """Application for ``server.probes_port`` with the probe routes, which the main application serves, too."""

    def __call__(self, scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Pass a request to the application that serves it.

        This is not a coroutine function, which saves one coroutine per request.
        """
        if scope["type"] != "http":
            return self._api(scope, receive, send)
        if self._around is not None and not self._is_for_console(scope["path"]):
            return self._around(scope, receive, send)
        return self._serve(scope, receive, send)

    def _serve(self, scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        if self._proxy.serves(scope["path"]):
            return self._proxied(scope, receive, send)
        if self._console is not None and _is_below(scope["path"], self._console_prefix):
            # The ids of requests in the paths of pages are texts of callers, in which each slash counts.
            return self._console(*_naming_request(scope, receive, send))
        path = canonical(scope["path"], ENDPOINTS)
        if path != scope["path"]:
            scope = {**scope, "path": path, "raw_path": raw(path)}
            if self._proxy.serves(path):
                return self._proxied(scope, receive, send)
        if self.admin is None and path.startswith(self._admin_prefix):
            return self._admin(*_naming_request(scope, receive, send))
        if self._scim is not None and _is_below(path, self._scim_prefix):
            return self._scim(*_naming_request(scope, receive, send))
        return self._api(*_naming_request(scope, receive, send))

    def _is_for_console(self, path: str) -> bool:
        """Return whether *path* belongs to the console, whose pages no other origin reads and nothing compresses."""
        return self._console is not None and _is_below(path, self._console_prefix)

    def _proxied(self, scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        if scope["method"] == "OPTIONS":
            return _allow_post(*_naming_request(scope, receive, send))
        return self._proxy(scope, receive, send)


async def _allow_post(_scope: Message, _receive: Receive, send: Send) -> None:
    """Answer an OPTIONS request with the allowed methods of a completion endpoint. No API key is required."""
    await send({"type": "http.response.start", "status": 204, "headers": [(b"allow", b"POST, OPTIONS")]})
    await send({"type": "http.response.body", "body": b""})


def _is_below(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/")


def _either(console: App, prefix: str, admin: App) -> App:
    """Return an application that serves *console* below *prefix*, and *admin* elsewhere."""

    def either(scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        app = console if _is_below(scope["path"], prefix) else admin
        return app(scope, receive, send)

    return either


def _named(app: App) -> App:
    """Wrap *app*, which has a separate port, so that its requests and responses get a request ID."""

    def naming(scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        return app(*_naming_request(scope, receive, send))

    return naming


def _naming_request(scope: Message, receive: Receive, send: Send) -> tuple[Message, Receive, Send]:
    """Add the caller's request ID, or a generated one, to a request and its response. HEAD is handled as GET."""
    request_id = request_id_of(fields(scope["headers"])) or secrets.token_hex(16).encode()
    named = {**scope, "headers": [(b"x-request-id", request_id), *scope["headers"]]}
    if scope["method"] == "HEAD":
        named["method"] = "GET"

    async def naming(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
        await send(message)

    return named, receive, naming
