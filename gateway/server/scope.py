"""Build the ASGI scopes for the requests on one connection."""

from typing import Any, Final
from urllib.parse import unquote

import httptools

from gateway.server.request_rules import authority_of

_MAX_KEPT_BYTES: Final = 256  # of a target that is kept with its connection; those of APIs are shorter
_FRAGMENT: Final = ord(b"#")  # as a number: for `bytes in bytes` CPython raises an error and drops it
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class ScopeBuilder:
    """Builder for ASGI scopes. It caches the scope for the last request line, because most clients repeat one request
    line.
    """

    __slots__ = ("_client", "_last_line", "_last_scope", "_scheme", "_server", "_state")

    def __init__(
        self, client: tuple[str, int] | None, server: tuple[str, int] | None, scheme: str, state: dict[str, Any]
    ) -> None:
        """Create a builder for ASGI scopes. The mapping *state* of the lifespan is copied into every scope."""
        self._client = client
        self._server = server
        self._scheme = scheme
        self._state = state
        self._last_line = b""
        self._last_scope: dict[str, Any] | None = None

    def repeated(self, head: bytes) -> dict[str, Any] | None:
        """Return an ASGI scope without headers if *head* begins with the previous request line, or else None."""
        if self._last_scope is not None and head.startswith(self._last_line):
            return self._last_scope.copy()
        return None

    def build(self, method: bytes, target: bytes, version: str) -> "tuple[dict[str, Any], bytes | None] | None":
        """Return an ASGI scope without headers, and the host if *target* is an absolute URL. If *target* is not
        allowed, return None.

        Raises:
            httptools.HttpParserInvalidURLError: if *target* is not a URL.
        """
        raw_path, query, authority = target, b"", None
        is_absolute = target[:1] != b"/"
        if is_absolute or _FRAGMENT in target:  # an absolute URL, as for a proxy; clients send no fragments
            parts: Any = httptools.parse_url(target)  # its stubs promise bytes, but a part may be None
            if is_absolute and target != b"*":
                authority = authority_of(parts)
                if authority is None:
                    return None
            raw_path, query = parts.path or b"/", parts.query or b""
        else:
            raw_path, _, query = target.partition(b"?")
        path = raw_path.decode("ascii")
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method.decode("ascii"),
            "scheme": self._scheme,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "client": self._client,
            "server": self._server,
        }
        if len(target) <= _MAX_KEPT_BYTES and not is_absolute:
            self._last_line = method + b" " + target + b" HTTP/" + version.encode("ascii") + b"\r\n"
            self._last_scope = scope.copy()
        return scope, authority

    def complete(self, scope: dict[str, Any], headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
        """Add the *headers* and a copy of the lifespan state to the ASGI scope *scope*, and return the scope."""
        scope["headers"] = headers
        scope["state"] = self._state.copy()
        return scope
